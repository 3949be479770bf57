// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// byRule holds the metrics that have the label rule.
var byRule []interface {
	DeletePartialMatch(prometheus.Labels) int
}

// Label is a label of a counter. Values are all its values, if they are known in advance.
type Label struct {
	Name   string
	Values []string
}

// counters create the series of a rule, with the value 0.
var counters []func(rule string)

// NewCounterByRule registers a counter with the label rule. If all values of its other labels are known, ExportRule
// creates its series. ForgetRule drops them.
func NewCounterByRule(name, help string, labels ...Label) *prometheus.CounterVec {
	names, series := []string{"rule"}, [][]string{nil}
	for _, label := range labels {
		names = append(names, label.Name)
		var more [][]string
		for _, former := range series {
			for _, value := range label.Values {
				more = append(more, append(slices.Clone(former), value))
			}
		}
		series = more
	}
	counter := register(prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, names))
	counters = append(counters, func(rule string) {
		for _, values := range series {
			counter.WithLabelValues(append([]string{rule}, values...)...)
		}
	})
	return counter
}

// ExportRule creates the series of a rule's counters with the value 0, so that Prometheus sees their first increase,
// and an alert on it fires.
func ExportRule(rule string) {
	for _, export := range counters {
		export(rule)
	}
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
