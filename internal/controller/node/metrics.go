// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Reasons of failures.
const (
	failurePatch   = "PatchFailed"
	failureRefused = "PatchRefused"
)

var (
	taintOperations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "node_readiness_taint_operations_total",
		Help: "Taints that were added, removed or adopted, by rule and operation.",
	}, []string{"rule", "operation"})
	evaluationDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "node_readiness_evaluation_duration_seconds",
		Help:    "Time that it takes to judge one rule on one node.",
		Buckets: []float64{1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 1e-2, 0.1},
	}, []string{"rule"})
	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "node_readiness_failures_total",
		Help: "Nodes on which a rule could not be carried out, by rule and reason.",
	}, []string{"rule", "reason"})
	bootstrapCompleted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "node_readiness_bootstrap_completed_total",
		Help: "Nodes that have completed a bootstrap-only rule.",
	}, []string{"rule"})
	bootstrapDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "node_readiness_bootstrap_duration_seconds",
		Help:    "Time from a node's creation until it has completed a bootstrap-only rule.",
		Buckets: []float64{1, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200, 3600},
	}, []string{"rule"})
	reconciliationLatency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "node_readiness_reconciliation_latency_seconds",
		Help: "Time from the change of the deciding evidence until the taint was added or removed. Transition times " +
			"have a resolution of a second.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800},
	}, []string{"rule", "operation"})
	timeouts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "node_readiness_timeouts_total",
		Help: "Nodes on which a rule's timeout has ended.",
	}, []string{"rule"})
	rearmed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "node_readiness_rearmed_total",
		Help: "Nodes that a rule has started over after a reboot.",
	}, []string{"rule"})
	escapedPods = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "node_readiness_escaped_pods_total",
		Help: "Pods that were bound to a node before its gate stood, though admission was to have it born gated.",
	}, []string{"rule"})
	conflicts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "node_readiness_patch_conflicts_total",
		Help: "Node patches that were refused because somebody else had written the node meanwhile. They are made again.",
	})

	byRule = []interface{ DeletePartialMatch(prometheus.Labels) int }{
		taintOperations, evaluationDuration, failures, bootstrapCompleted, bootstrapDuration, reconciliationLatency, timeouts,
		rearmed, escapedPods,
	}
)

func init() {
	metrics.Registry.MustRegister(taintOperations, evaluationDuration, failures, bootstrapCompleted, bootstrapDuration,
		reconciliationLatency, timeouts, rearmed, escapedPods, conflicts)
}

// ForgetRule drops the metrics of a rule that is gone.
func ForgetRule(rule string) {
	for _, m := range byRule {
		m.DeletePartialMatch(prometheus.Labels{"rule": rule})
	}
}
