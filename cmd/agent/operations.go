// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// operations serves what the agent's own operators ask for, apart from what balancers do. /livez and /readyz are about
// the agent, never about the node: a kubelet must not restart the agent because the node is ill. It is ready while it
// serves.
func (a *agent) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
	mux.HandleFunc("GET /livez", ok)
	mux.HandleFunc("GET /readyz", ok)
	mux.HandleFunc("GET /healthz", ok) // what the reporter calls it
	return mux
}
