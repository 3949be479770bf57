// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/internal/agent/health"
	"github.com/nodegate/nodegate/test/cluster"
)

// clusters is the one cluster of all tests that need one.
var clusters = cluster.Shared(func(ctx context.Context) (*cluster.Cluster, error) {
	return cluster.Start(ctx, cluster.Options{})
})

func TestMain(m *testing.M) { clusters.Main(m) }

// shared returns the cluster as a test uses it.
func shared(t *testing.T) *cluster.Env {
	t.Helper()
	return cluster.NewEnv(t, clusters.Get(t))
}

// running is an agent that runs in this process.
type running struct {
	*cluster.Log
	addresses map[string]string
	stop      context.CancelFunc
	ended     chan struct{}
	err       error
}

// startAgent runs an agent with this environment and these arguments, on ports of the system's choice, until the test
// ends.
func startAgent(t *testing.T, env map[string]string, args ...string) *running {
	t.Helper()
	r := &running{Log: &cluster.Log{}, addresses: map[string]string{}, ended: make(chan struct{})}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	listening := make(chan struct{}, 4)
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	hurry := make(chan struct{})
	cmd := newCommand(lookup, hooks{hurry: hurry, listening: func(server string, address net.Addr) {
		r.addresses[server] = address.String()
		listening <- struct{}{}
	}})
	cmd.SetErr(r.Log)
	all := []string{"--listen-address=127.0.0.1", "--metrics-bind-address=127.0.0.1:0", "--drain-time=0",
		"--health-probe-bind-address=127.0.0.1:0"}
	servers := 2
	if env["CHECK_ENDPOINT"] == "" {
		all = append(all, "--listen-port=0")
	}
	if env["CHECK_ENDPOINT"] == "" || env["LISTEN_PORT"] != "" {
		servers++
	}
	if slices.Contains(args, "--agent-check-port") {
		servers++
	}
	cmd.SetArgs(append(all, args...))
	go func() {
		r.err = cmd.ExecuteContext(ctx)
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.stop()
		close(hurry)
		<-r.ended
		if r.err != nil {
			t.Errorf("the agent: %v", r.err)
		}
		if t.Failed() {
			t.Logf("the agent's log:\n%s", r.Log)
		}
	})
	for range servers {
		select {
		case <-listening:
		case <-r.ended:
			t.Fatalf("the agent has ended: %v", r.err)
		}
	}
	return r
}

// answer is an answer of /health with its status.
type answer struct {
	health.Answer
	code     int
	failOpen string // the header
}

func (r *running) health(t *testing.T, query string) answer {
	t.Helper()
	resp, err := http.Get("http://" + r.addresses["health"] + "/health" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	a := answer{code: resp.StatusCode, failOpen: resp.Header.Get(health.FailOpenHeader)}
	if err := json.NewDecoder(resp.Body).Decode(&a.Answer); err != nil {
		t.Fatal(err)
	}
	return a
}

// is waits until /health answers like this; reason is that of the first check.
func (r *running) is(t *testing.T, code int, failOpen bool, reason string) {
	t.Helper()
	cluster.Eventually(t, "/health", func() error {
		a := r.health(t, "")
		if a.code != code || a.FailOpen != failOpen || (a.failOpen != "") != failOpen ||
			!strings.Contains(a.Checks[0].Reason, reason) {
			return fmt.Errorf("status %d: %+v", a.code, a.Answer)
		}
		return nil
	})
}

func (r *running) get(t *testing.T, server, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + r.addresses[server] + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
