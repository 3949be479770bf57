// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// byRule holds the metrics that have the label rule.
var byRule []interface {
	DeletePartialMatch(prometheus.Labels) int
}

// NewCounterByRule registers a counter with the label rule. ForgetRule drops its series.
func NewCounterByRule(name, help string, labels ...string) *prometheus.CounterVec {
	return register(prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, withRule(labels)))
}

// NewGaugeByRule registers a gauge with the label rule. ForgetRule drops its series.
func NewGaugeByRule(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, withRule(labels)))
}

// NewHistogramByRule registers a histogram with the label rule. ForgetRule drops its series.
func NewHistogramByRule(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets},
		withRule(labels)))
}

func withRule(labels []string) []string { return append([]string{"rule"}, labels...) }

func register[M interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}](m M) M {
	metrics.Registry.MustRegister(m)
	byRule = append(byRule, m)
	return m
}

// ForgetRule drops the series of a deleted rule from all metrics that this package has created.
func ForgetRule(rule string) {
	for _, m := range byRule {
		m.DeletePartialMatch(prometheus.Labels{"rule": rule})
	}
}
