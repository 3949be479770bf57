// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodegate/nodegate/internal/agent/checks"
)

// Metrics counts the answers of /health and of the agent-check.
type Metrics struct {
	requests *prometheus.CounterVec
	results  *prometheus.CounterVec
	failOpen *prometheus.GaugeVec
	closed   *prometheus.CounterVec
}

// NewMetrics returns the metrics, registered.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "node_readiness_agent_health_requests_total", Help: "Requests to /health, by the status code of the answer.",
		}, []string{"code"}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "node_readiness_agent_check_results_total",
			Help: "Results of checks in answers: passed, failed, fail_open or misconfigured.",
		}, []string{"check", "result"}),
		failOpen: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "node_readiness_agent_check_fail_open",
			Help: "1 if the last result of the check was fail-open, otherwise 0.",
		}, []string{"check"}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "node_readiness_agent_connections_refused_total",
			Help: "Connections that the agent closed at once: address (not in --allow-from) or limit (too many of one client).",
		}, []string{"reason"}),
	}
	r.MustRegister(m.requests, m.results, m.failOpen, m.closed)
	return m
}

// observe counts a result. Call it only with names of existing checks, because names become labels.
func (m *Metrics) observe(name string, o checks.Outcome) {
	result, open := "failed", 0.0
	switch {
	case o.Misconfigured:
		result = "misconfigured"
	case o.FailOpen != "":
		result, open = "fail_open", 1
	case o.Passed:
		result = "passed"
	}
	m.results.WithLabelValues(name, result).Inc()
	m.failOpen.WithLabelValues(name).Set(open)
}

// Forget removes the last results, because the checks have changed. Otherwise a check that no longer exists would look
// fail-open forever.
func (m *Metrics) Forget() { m.failOpen.Reset() }
