// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// operations serves what the agent's own operators ask for, apart from what balancers do.
func (a *agent) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", ok) // the reporter serves it here
	return mux
}

// liveness serves what kubelet asks, on a port of its own: a crowd at another one must not get the agent restarted.
// The answers are about the agent, never about the node: kubelet must not restart the agent because the node is ill.
func liveness() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", ok)
	mux.HandleFunc("GET /readyz", ok)
	return mux
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
