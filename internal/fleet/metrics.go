// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// StatusWrites counts the writes of rules' statuses, by the controller of rules and by the handover of nodes.
var StatusWrites = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
	Name: "node_readiness_status_writes_total",
	Help: "Status writes of rules.",
})

// byRule holds the metrics that have the label rule.
var byRule []interface {
	DeletePartialMatch(prometheus.Labels) int
}

// Label is a label of a counter or histogram. Values are all its values, if they are known in advance.
type Label struct {
	Name   string
	Values []string
}

// exports create the series of a rule, with the value 0.
var exports []func(rule string)

// series returns the names of all labels, the first of which is rule. If all values of the others are known, ExportRule
// creates the series.
func series(create func(values ...string), labels []Label) []string {
	names, all := []string{"rule"}, [][]string{nil}
	for _, label := range labels {
		names = append(names, label.Name)
		var more [][]string
		for _, former := range all {
			for _, value := range label.Values {
				more = append(more, append(slices.Clone(former), value))
			}
		}
		all = more
	}
	exports = append(exports, func(rule string) {
		for _, values := range all {
			create(append([]string{rule}, values...)...)
		}
	})
	return names
}

// NewCounterByRule registers a counter with the label rule. If all values of its other labels are known, ExportRule
// creates its series. ForgetRule drops them.
func NewCounterByRule(name, help string, labels ...Label) *prometheus.CounterVec {
	var counter *prometheus.CounterVec
	names := series(func(values ...string) { counter.WithLabelValues(values...) }, labels)
	counter = register(prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, names))
	return counter
}

// ExportRule creates the series of a rule's counters and histograms with the value 0, so that Prometheus sees their
// first increase, and an alert on it fires.
func ExportRule(rule string) {
	for _, export := range exports {
		export(rule)
	}
}

// NewGaugeByRule registers a gauge with the label rule. ForgetRule drops its series.
func NewGaugeByRule(name, help string) *prometheus.GaugeVec {
	return register(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"rule"}))
}

// NewHistogramByRule registers a histogram like NewCounterByRule.
func NewHistogramByRule(name, help string, buckets []float64, labels ...Label) *prometheus.HistogramVec {
	var histogram *prometheus.HistogramVec
	names := series(func(values ...string) { histogram.WithLabelValues(values...) }, labels)
	histogram = register(prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets},
		names))
	return histogram
}

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
