// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/test/cluster"
)

const down = "Kubernetes API appears to be down"

func TestWithoutACluster(t *testing.T) {
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig=/nonexistent")
	got := a.health(t, "")
	if got.code != 200 || got.failOpen != "node_ready" || !strings.HasPrefix(got.Checks[0].FailOpen,
		"Kubernetes client initialization failed") {
		t.Errorf("got %+v", got)
	}
	if a.count(down) != 1 || a.count("Assuming node is ready") != 1 {
		t.Error("there is no warning, or more than one")
	}
}

func TestWithoutANodeName(t *testing.T) {
	a := startAgent(t, nil, "--kubeconfig=/nonexistent")
	got := a.health(t, "")
	if got.code != 500 || got.Checks[0].Reason != "NODE_NAME is not set" {
		t.Errorf("got %+v", got)
	}
	if got := a.health(t, "?check=filesystem_ro,bogus"); got.code != 503 || len(got.Checks) != 2 {
		t.Errorf("checks that need no name: %+v", got)
	}
}

func TestDraining(t *testing.T) {
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig=/nonexistent", "--drain-time=1h")
	if got := a.health(t, ""); got.code != 200 {
		t.Fatalf("got %+v", got)
	}
	a.stop()
	cluster.Eventually(t, "it drains", func() error {
		if got := a.health(t, ""); got.code != 503 {
			return fmt.Errorf("status %d", got.code)
		}
		return nil
	})
	if code, body := a.get(t, "health", "/health?format=text"); code != 503 || body != "down\n" {
		t.Errorf("text: %d %q", code, body)
	}
}

func TestOperations(t *testing.T) {
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig=/nonexistent")
	a.health(t, "")
	for path, server := range map[string]string{"/livez": "probes", "/readyz": "probes", "/healthz": "metrics"} {
		if code, _ := a.get(t, server, path); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
	_, metrics := a.get(t, "metrics", "/metrics")
	for _, line := range []string{
		`node_readiness_agent_check_fail_open{check="node_ready"} 1`,
		`node_readiness_agent_health_requests_total{code="200"} 1`,
		`node_readiness_agent_api_available 0`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if code, _ := a.get(t, "health", "/metrics"); code != 404 {
		t.Errorf("metrics on the balancers' port: %d", code)
	}
}
