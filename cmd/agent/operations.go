// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nodegate/nodegate/internal/agent/nodewatch"
)

// operations serves metrics, on a port apart from that of load balancers.
func (a *agent) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", ok) // the incumbent's reporter serves it on this port
	return mux
}

// kubeletProbes serves the kubelet's probes on a separate port, so that clients of another port cannot get the agent
// restarted. The answers are about the agent, not the node: the kubelet must not restart the agent of a failing node.
func (a *agent) kubeletProbes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", ok)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if why := *a.unready.Load(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		ok(w, r)
	})
	return mux
}

// provePeriod is how often prove looks again.
const provePeriod = time.Second

// prove makes the agent ready as soon as each check and probe of the configuration was possible once, with any
// result: a rollout of agents that cannot work must stop. The agent then stays ready, because the kubelet must not
// take away an agent when a rule or the node changes.
func (a *agent) prove(ctx context.Context) {
	possible := map[string]bool{}
	for ctx.Err() == nil {
		why := a.impossible(ctx, possible)
		a.unready.Store(&why)
		if why == "" {
			return
		}
		nodewatch.Sleep(ctx, provePeriod, nil)
	}
}

// impossible returns what the agent cannot do; empty: nothing. possible are the names of the checks that were possible.
func (a *agent) impossible(ctx context.Context, possible map[string]bool) string {
	if a.loader != nil {
		_, err := os.Stat(a.options.config)
		missing := errors.Is(err, fs.ErrNotExist) // the operator may start later
		switch {
		case !missing && a.loader.Problem() != "":
			return "the configuration cannot be used: " + a.loader.Problem()
		case !missing && !a.inForce.Load():
			return "the configuration is not in force yet"
		}
	}
	suite := a.suite.Load()
	for _, name := range suite.Defaults() {
		if possible[name] {
			continue
		}
		if o := suite.Group(name).Do(ctx); o.Misconfigured {
			return name + ": " + o.Reason
		}
		possible[name] = true
	}
	if a.probes != nil {
		return a.probes.Impossible()
	}
	return ""
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
