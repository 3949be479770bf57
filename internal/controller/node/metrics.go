// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
)

// Reasons of failures in a rule's status.
const (
	failurePatch   = "PatchFailed"
	failureRefused = "PatchRefused"
	failureUndone  = "WriteUndone"
	// failurePublished: the condition that a rule publishes could not be written.
	failurePublished = "PublishFailed"
)

// Reasons of failures in the metric, which are those of the incumbent controller.
const (
	failureAddTaint    = "AddTaintError"
	failureRemoveTaint = "RemoveTaintError"
	failureEvaluation  = "EvaluationError"
	failurePublish     = "PublishError" // not the incumbent's
)

// Operations in metrics, which are those of the incumbent controller.
var (
	taintOperation   = map[taints.Operation]string{taints.Added: "add", taints.Removed: "remove"}
	latencyOperation = map[taints.Operation]string{taints.Added: "add_taint", taints.Removed: "remove_taint"}
	failedOperation  = map[taints.Operation]string{taints.Added: failureAddTaint, taints.Removed: failureRemoveTaint}
)

var (
	taintOperations = fleet.NewCounterByRule("node_readiness_taint_operations_total",
		"Taints that were added or removed, by rule and operation: add or remove.",
		fleet.Label{Name: "operation", Values: slices.Collect(maps.Values(taintOperation))})
	adoptedTaints = fleet.NewCounterByRule("node_readiness_adopted_taints_total",
		"Taints that were already on a node when a rule started to manage them.")
	evaluationDuration = fleet.NewHistogramByRule("node_readiness_evaluation_duration_seconds",
		"Time to evaluate one rule on one node.", prometheus.DefBuckets)
	failures = fleet.NewCounterByRule("node_readiness_failures_total",
		"Failed updates of nodes, by rule and reason: AddTaintError, RemoveTaintError, PublishError (the condition "+
			"that a rule publishes), or EvaluationError (anything else).", fleet.Label{Name: "reason",
			Values: []string{failureAddTaint, failureRemoveTaint, failurePublish, failureEvaluation}})
	bootstrapCompleted = fleet.NewCounterByRule("node_readiness_bootstrap_completed_total",
		"Nodes that have completed a bootstrap-only rule.")
	bootstrapDuration = fleet.NewHistogramByRule("node_readiness_bootstrap_duration_seconds",
		"Time from a node's creation until it has completed a bootstrap-only rule.",
		[]float64{1, 5, 10, 30, 60, 120, 300, 600, 1200})
	bootstrapHold = fleet.NewHistogramByRule("node_readiness_bootstrap_hold_duration_seconds",
		"Time from the taint until a node has completed a bootstrap-only rule, by where the taint came from: "+
			"controller, or adopted if it was on the node already.",
		[]float64{1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600},
		fleet.Label{Name: "taint_origin", Values: []string{"controller", "adopted"}})
	startupDuration = fleet.NewHistogramByRule("node_readiness_startup_duration_seconds",
		"Time from a node's creation to its first release by a rule.",
		[]float64{5, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 3600})
	startupResults = fleet.NewCounterByRule("node_readiness_startups_total",
		"Starts of nodes under a rule that have ended, by result: ready, timed_out, deleted, or excluded if the node "+
			"was overridden, suspended or labelled late.", fleet.Label{Name: "result",
			Values: []string{string(state.Ready), string(state.TimedOut), deleted, string(state.Excluded)}})
	startupObjective = fleet.NewCounterByRule("node_readiness_startup_objective_total",
		"Starts of nodes under a rule, by whether the node was released within --startup-objective.",
		fleet.Label{Name: "met", Values: slices.Collect(maps.Values(met))})
	blockedSeconds = fleet.NewCounterByRule("node_readiness_blocked_seconds_total",
		"Time for which nodes that have started waited for a piece of evidence: a condition's type, requirement/<name>, or "+
			"stabilization. Counted when the start ends.", fleet.Label{Name: "condition"})
	soleBlockerSeconds = fleet.NewCounterByRule("node_readiness_sole_blocker_seconds_total",
		"Time for which nodes that have started waited for this piece of evidence only.", fleet.Label{Name: "condition"})
	lastBlocker = fleet.NewCounterByRule("node_readiness_last_blocker_total",
		"Nodes that became ready, by the piece of evidence that they waited for last.", fleet.Label{Name: "condition"})
	reconciliationLatency = fleet.NewHistogramByRule("node_readiness_reconciliation_latency_seconds",
		"Time from the change of the deciding evidence until the taint was added or removed. Transition times "+
			"have a resolution of a second.",
		[]float64{0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}, fleet.Label{Name: "operation",
			Values: slices.Collect(maps.Values(latencyOperation))})
	conditionFailures = fleet.NewCounterByRule("node_readiness_condition_failures_total",
		"Evaluations in which a condition did not have the required status. Only with --enable-node-state-metrics.",
		fleet.Label{Name: "condition"})
	timeouts = fleet.NewCounterByRule("node_readiness_timeouts_total", "Nodes on which a rule's timeout has ended.")
	rearmed  = fleet.NewCounterByRule("node_readiness_rearmed_total",
		"Nodes that a rule treated as new after a reboot.")
	conditionChanges = fleet.NewCounterByRule("node_readiness_published_condition_changes_total",
		"Changes of the node condition that a rule publishes, by its new status: True, False, Unknown or Removed.",
		fleet.Label{Name: "status", Values: []string{"True", "False", "Unknown", "Removed"}})
	escapedPods = fleet.NewCounterByRule("node_readiness_escaped_pods_total",
		"Pods that were bound to a node before it was tainted, although admission should have tainted it at creation.")
	conflicts = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "node_readiness_patch_conflicts_total",
		Help: "Node patches that failed because another client had changed the node. The operator retries them.",
	})
)

// countFailure counts a write of a node that failed, for one of the rules that concern the node.
func countFailure(rule *ruleset.Rule, changes []taints.Change) {
	reason := failureEvaluation
	for i := range changes {
		if failed := failedOperation[changes[i].Operation]; failed != "" && changes[i].Rule == rule {
			reason = failed
		}
	}
	failures.WithLabelValues(rule.Name, reason).Inc()
}
