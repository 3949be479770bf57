// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/agentclient"
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
	*agentclient.Client
	stop  context.CancelFunc
	ended chan struct{}
	err   error
}

// end ends the agent and waits for it.
func (r *running) end() {
	r.stop()
	<-r.ended
}

// startAgent runs an agent with this environment and these arguments, on ports of the system's choice, until the test
// ends.
func startAgent(t *testing.T, env map[string]string, args ...string) *running {
	t.Helper()
	r := &running{Client: agentclient.New(), ended: make(chan struct{})}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	cmd := newCommand(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	cmd.SetErr(r.Log)
	all := []string{"--listen-address=127.0.0.1", "--metrics-bind-address=127.0.0.1:0", "--drain-time=0",
		"--health-probe-bind-address=127.0.0.1:0"}
	if env["CHECK_ENDPOINT"] == "" {
		all = append(all, "--listen-port=0")
	}
	cmd.SetArgs(append(all, args...))
	go func() {
		r.err = cmd.ExecuteContext(ctx)
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.end()
		if r.err != nil {
			t.Errorf("the agent: %v", r.err)
		}
		if t.Failed() {
			t.Logf("the agent's log:\n%s", r.Log)
		}
	})
	r.Listens(t, r.ended)
	return r
}
