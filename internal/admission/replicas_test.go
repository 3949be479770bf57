// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

func TestEveryReplica(t *testing.T) {
	ran := false
	var r manager.Runnable = EveryReplica(func(context.Context) error { ran = true; return nil })
	if err := r.Start(t.Context()); err != nil || !ran {
		t.Errorf("ran: %t, %v", ran, err)
	}
	if l, ok := r.(manager.LeaderElectionRunnable); !ok || l.NeedLeaderElection() {
		t.Error("only the leader would run it")
	}
}
