// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"syscall"
	"testing"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/needs"
)

// TestStartedByHand starts the agent with nothing but NODE_NAME, on its own ports, which are free in this
// network.
func TestStartedByHand(t *testing.T) {
	binary(t)
	if !needs.Isolated(t) {
		return
	}
	p := launch(t, []string{"NODE_NAME=x"})
	p.Listens(t, p.exited)

	a := p.Health(t, "")
	if a.Code != 200 || a.FailOpen != "node_ready" || len(a.Checks) != 1 || a.Checks[0].Name != "node_ready" ||
		!a.Checks[0].Passed || !strings.HasPrefix(a.Checks[0].FailOpen, "Kubernetes client initialization failed") {
		t.Errorf("status %d: %s", a.Code, a.Raw)
	}
	for _, once := range []string{warning, "Assuming node is ready"} {
		cluster.Eventually(t, "the warning", func() error { return wantCount(p, once, 1) })
	}
	t.Run("a second one says why it cannot start", func(t *testing.T) {
		second := launch(t, []string{"NODE_NAME=x"})
		<-second.exited
		if second.err == nil {
			t.Fatal("it has ended without an error")
		}
		if log := second.String(); !strings.Contains(log, "error: --listen-port: serving health: listen tcp :25001: bind: "+
			"address already in use\n") {
			t.Errorf("got %s", log)
		}
		second = launch(t, []string{"NODE_NAME=x", "LISTEN_PORT=25002"})
		<-second.exited
		if log := second.String(); !strings.Contains(log, "error: --metrics-bind-address: serving metrics: listen tcp "+
			":9445: bind: address already in use\n") {
			t.Errorf("got %s", log)
		}
	})

	p.signal(t, syscall.SIGTERM)
	cluster.Eventually(t, "it drains", func() error { return wantCount(p, `"drainStatus":503`, 1) })
	if a := p.Health(t, ""); a.Code != 503 {
		t.Errorf("status %d: %s", a.Code, a.Raw)
	}
	p.hurry(t)
}
