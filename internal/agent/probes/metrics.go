// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodegate/nodegate/internal/version"
)

// Metrics counts results of probes and writes of conditions.
type Metrics struct {
	runs   *prometheus.CounterVec
	writes *prometheus.CounterVec
	// Only of the reporter, otherwise nil.
	checks, conditionWrites *prometheus.CounterVec
	duration                prometheus.Histogram
}

// NewReporterMetrics returns the metrics of an agent that replaces the incumbent's reporter: those of an agent and
// those of that reporter.
func NewReporterMetrics(r prometheus.Registerer) *Metrics {
	m := NewMetrics(r)
	m.checks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "node_readiness_reporter_checks_total",
		Help: "Checks of the reporter's endpoint: healthy, unhealthy or error (no answer).",
	}, []string{"result"})
	m.conditionWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "node_readiness_reporter_condition_writes_total",
		Help: "Writes of the reporter's condition: success, error, or skipped if the condition was up to date.",
	}, []string{"result"})
	m.duration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "node_readiness_reporter_check_duration_seconds", Help: "How long a check of the reporter's endpoint takes.",
		Buckets: []float64{0.005, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
	})
	r.MustRegister(m.checks, m.conditionWrites, m.duration, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "node_readiness_reporter_build_info", Help: "Always 1, with the version as a label.",
		ConstLabels: prometheus.Labels{"version": version.Version},
	}, func() float64 { return 1 }))
	return m
}

// NewMetrics returns the metrics, registered.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "node_readiness_agent_probe_runs_total", Help: "Runs of probes, by condition and result: success or failure.",
		}, []string{"condition", "result"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "node_readiness_agent_condition_writes_total",
			Help: "Patches of the node's conditions, by result: success or error.",
		}, []string{"result"}),
	}
	for _, result := range []string{"success", "error"} {
		m.writes.WithLabelValues(result) // with the value 0, so that an alert on its first increase fires
	}
	r.MustRegister(m.runs, m.writes)
	return m
}

func (m *Metrics) ran(condition string, f Finding, took time.Duration) {
	result := "failure"
	if f.OK {
		result = "success"
	}
	m.runs.WithLabelValues(condition, result).Inc()
	if m.checks == nil {
		return
	}
	m.duration.Observe(took.Seconds())
	switch f.Reason {
	case ReasonEndpointOK:
		result = "healthy"
	case ReasonEndpointNotReady:
		result = "unhealthy"
	default:
		result = "error"
	}
	m.checks.WithLabelValues(result).Inc()
}

func (m *Metrics) wrote(result string) {
	m.writes.WithLabelValues(result).Inc()
	if m.conditionWrites != nil {
		m.conditionWrites.WithLabelValues(result).Inc()
	}
}

// skipped counts a check after which the condition was up to date.
func (m *Metrics) skipped() {
	if m.conditionWrites != nil {
		m.conditionWrites.WithLabelValues("skipped").Inc()
	}
}
