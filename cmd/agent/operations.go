// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// operations serves metrics, on a port apart from that of load balancers.
func (a *agent) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", ok) // the incumbent's reporter serves it on this port
	return mux
}

// liveness serves the kubelet's probes on a separate port, so that clients of another port cannot get the agent
// restarted. The answers are about the agent, not the node: the kubelet must not restart the agent of a failing node.
func liveness() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", ok)
	mux.HandleFunc("GET /readyz", ok)
	return mux
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
