// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what probes find and what is written.
type Metrics struct {
	runs   *prometheus.CounterVec
	writes *prometheus.CounterVec
}

// NewMetrics returns the metrics, registered.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "node_readiness_agent_probe_runs_total", Help: "Runs of probes, by the condition they publish: success or " +
				"failure.",
		}, []string{"condition", "result"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "node_readiness_agent_condition_writes_total", Help: "Patches of the node's conditions: success or error.",
		}, []string{"result"}),
	}
	r.MustRegister(m.runs, m.writes)
	return m
}

func (m *Metrics) ran(condition string, ok bool) {
	if m == nil {
		return
	}
	result := "failure"
	if ok {
		result = "success"
	}
	m.runs.WithLabelValues(condition, result).Inc()
}

func (m *Metrics) wrote(result string) {
	if m != nil {
		m.writes.WithLabelValues(result).Inc()
	}
}
