// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/nodegate/nodegate/internal/plugin/input"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// emptyLive knows nothing, and reads nothing.
func emptyLive() *Live {
	return NewLive(Options{Cluster: &input.Cluster{Clients: fake.NewClientset()}, Now: func() time.Time { return start }})
}
