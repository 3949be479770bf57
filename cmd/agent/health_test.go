// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

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
	if a.Count(down) != 1 || a.Count("Assuming node is ready") != 1 {
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
	for _, status := range []int{503, 404} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig=/nonexistent", "--drain-time=1h",
				fmt.Sprint("--drain-status=", status))
			a.is(t, 200, true, "")
			a.stop()
			cluster.Eventually(t, "it drains", func() error {
				if got := a.health(t, ""); got.code != status {
					return fmt.Errorf("status %d", got.code)
				}
				if n := a.Count(fmt.Sprintf(`"drainStatus":%d`, status)); n != 1 {
					return fmt.Errorf("the log shows the status %d times", n)
				}
				return nil
			})
			if code, body := a.get(t, "health", "/health?format=text"); code != status || body != "down\n" {
				t.Errorf("text: %d %q", code, body)
			}
		})
	}
}

// TestAnAgentThatStarts says the drain's status until it can judge, because HAProxy takes 404 for a drain that lasts.
func TestAnAgentThatStarts(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(slow.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	cluster.Must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: slow.URL}},
	}, kubeconfig))
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig", kubeconfig, "--drain-status=404")
	if got := a.health(t, "?check=filesystem_ro"); got.code != 404 {
		t.Errorf("at first: %+v", got)
	}
	a.is(t, 200, true, "")
}

// TestOnlyBalancersMayAsk: --allow-from is for the balancers' ports. Metrics are for others.
func TestOnlyBalancersMayAsk(t *testing.T) {
	ports, err := cluster.TakePorts(1)
	cluster.Must(t, err)
	a := startAgent(t, map[string]string{"NODE_NAME": "x"}, "--kubeconfig=/nonexistent",
		"--allow-from=127.0.0.2/32,::1/128", "--agent-check-port", fmt.Sprint(ports[0]))
	ask := func(from, server, request string) string {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", a.addresses[server])
		cluster.Must(t, err)
		defer conn.Close() //nolint:errcheck // done with it
		_ = conn.SetDeadline(time.Now().Add(cluster.Limit))
		_, _ = conn.Write([]byte(request))
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSpace(line)
	}
	const get = "GET /health HTTP/1.0\r\n\r\n"
	for from, want := range map[string][2]string{"127.0.0.1": {}, "127.0.0.2": {"HTTP/1.0 200 OK", "up 100%"}} {
		if got := ask(from, "health", get); got != want[0] {
			t.Errorf("/health from %s: %q", from, got)
		}
		if got := ask(from, "agent-check", ""); got != want[1] {
			t.Errorf("the agent-check from %s: %q", from, got)
		}
	}
	_, metrics := a.get(t, "metrics", "/metrics")
	if !strings.Contains(metrics, `node_readiness_agent_connections_refused_total{reason="address"} 2`) {
		t.Error("the refusals are not counted")
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
