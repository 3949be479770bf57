// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/input"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// emptyLive knows nothing, and reads nothing.
func emptyLive() *Live {
	return NewLive(Options{Cluster: &input.Cluster{Clients: fake.NewClientset()}, Now: func() time.Time { return start }})
}

// TestMaintenance: the end of a maintenance is a part of its annotation, which stays on the node.
func TestMaintenance(t *testing.T) {
	of := func(value string) *Note {
		node := &corev1.Node{}
		node.Annotations = map[string]string{v1alpha1.MaintenanceAnnotation: value}
		return nodeOf(node, &explain.Decided{}, nil, nil, start).Maintenance
	}
	g := NewWithT(t)
	g.Expect(of("disk")).To(Equal(&Note{Value: "disk"}))
	g.Expect(of("disk;until=2026-07-01T12:30:00Z")).To(HaveField("Value", "disk until 2026-07-01T12:30:00Z"))
	g.Expect(of("disk;until=2026-07-01T12:00:00Z")).To(BeNil())
	g.Expect(of("false")).To(BeNil())
}
