// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodegate/nodegate/internal/agent/checks"
)

// Metrics counts the answers of /health and of the agent-check.
type Metrics struct {
	requests *prometheus.CounterVec
	results  *prometheus.CounterVec
	failOpen *lastResults
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
		failOpen: &lastResults{asked: map[string]time.Time{}, GaugeVec: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "node_readiness_agent_check_fail_open",
			Help: "1 if the last result of the check was fail-open, otherwise 0.",
		}, []string{"check"})},
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
	m.failOpen.set(name, open)
}

// Forget removes the last results, because the checks have changed. Otherwise a check that no longer exists would look
// fail-open forever.
func (m *Metrics) Forget() {
	m.failOpen.mu.Lock()
	defer m.failOpen.mu.Unlock()
	clear(m.failOpen.asked)
	m.failOpen.Reset()
}

// askedWithin is how long a result stays in the metric after a request. Load balancers ask at least every 5 minutes. A
// request by hand must not fire the alert, which waits for 15 minutes.
const askedWithin = 6 * time.Minute

// lastResults is a gauge with the last result of each check that requests still run.
type lastResults struct {
	*prometheus.GaugeVec
	mu    sync.Mutex
	asked map[string]time.Time
}

func (l *lastResults) set(check string, value float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[check] = time.Now()
	l.WithLabelValues(check).Set(value)
}

// Collect implements prometheus.Collector.
func (l *lastResults) Collect(metrics chan<- prometheus.Metric) {
	l.mu.Lock()
	for check, at := range l.asked {
		if time.Since(at) > askedWithin {
			delete(l.asked, check)
			l.DeleteLabelValues(check)
		}
	}
	l.mu.Unlock()
	l.GaugeVec.Collect(metrics)
}
