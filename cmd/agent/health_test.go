// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

func TestWithoutANodeName(t *testing.T) {
	a := startAgent(t, nil, "--kubeconfig=/nonexistent")
	got := a.Health(t, "")
	if got.Code != 500 || got.Checks[0].Reason != "NODE_NAME is not set" {
		t.Errorf("got %+v", got)
	}
	if got := a.Health(t, "?check=filesystem_ro,bogus"); got.Code != 503 || len(got.Checks) != 2 {
		t.Errorf("checks that need no name: %+v", got)
	}
}

// TestAnAgentThatStarts says the drain's status until it can judge, because HAProxy takes 404 for a drain that lasts.
func TestAnAgentThatStarts(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(slow.Close)
	kubeconfig := cluster.Kubeconfig(t, slow.URL, nil, "")
	var a *running
	cluster.Eventually(t, "an agent that is asked within a second of its start cannot judge", func() error {
		if a != nil {
			a.end()
		}
		a = startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig", kubeconfig, "--drain-status=404")
		if got := a.Health(t, "?check=filesystem_ro"); got.Code != 404 {
			return fmt.Errorf("at first: %+v", got)
		}
		return nil
	})
	a.Is(t, 200, true, "")
}

// TestOnlyBalancersMayAsk: --allow-from is for the balancers' ports. Metrics are for others, and have a flag of their
// own.
func TestOnlyBalancersMayAsk(t *testing.T) {
	ports, err := cluster.TakePorts(1)
	cluster.Must(t, err)
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig=/nonexistent",
		"--allow-from=127.0.0.8/31,::1/128", "--agent-check-port", fmt.Sprint(ports[0]),
		"--metrics-allow-from=127.0.0.1/32,127.0.0.7/32")
	ask := func(from, server, request string) string {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", a.Addresses[server])
		cluster.Must(t, err)
		defer conn.Close() //nolint:errcheck // done with it
		_ = conn.SetDeadline(time.Now().Add(cluster.Limit))
		_, _ = conn.Write([]byte(request))
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSpace(line)
	}
	const get = "GET /health HTTP/1.0\r\n\r\n"
	answered := [2]string{"HTTP/1.0 200 OK", "up 100%"}
	for from, want := range map[string][2]string{"127.0.0.7": {}, "127.0.0.8": answered, "127.0.0.9": answered,
		"127.0.0.10": {}} {
		if got := ask(from, "health", get); got != want[0] {
			t.Errorf("/health from %s: %q", from, got)
		}
		if got := ask(from, "agent-check", ""); got != want[1] {
			t.Errorf("the agent-check from %s: %q", from, got)
		}
		metrics := map[bool]string{true: "HTTP/1.0 200 OK"}[from == "127.0.0.7"]
		if got := ask(from, "metrics", "GET /metrics HTTP/1.0\r\n\r\n"); got != metrics {
			t.Errorf("/metrics from %s: %q", from, got)
		}
	}
	if n := a.Metric(t, `node_readiness_agent_connections_refused_total{reason="address"}`); n != 7 {
		t.Errorf("%v refusals are counted", n)
	}
}

func TestOperations(t *testing.T) {
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig=/nonexistent")
	a.Health(t, "")
	for path, server := range map[string]string{"/livez": "probes", "/readyz": "probes", "/healthz": "metrics"} {
		cluster.Eventually(t, path, func() error {
			if code, body := a.Get(t, server, path); code != 200 {
				return fmt.Errorf("%d: %s", code, body)
			}
			return nil
		})
	}
	_, metrics := a.Get(t, "metrics", "/metrics")
	for _, line := range []string{
		`node_readiness_agent_check_fail_open{check="node_ready"} 1`,
		`node_readiness_agent_health_requests_total{code="200"} 1`,
		`node_readiness_agent_api_available 0`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if code, _ := a.Get(t, "health", "/metrics"); code != 404 {
		t.Errorf("metrics on the balancers' port: %d", code)
	}
}
