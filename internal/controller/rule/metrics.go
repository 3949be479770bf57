// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/nodegate/nodegate/internal/fleet"
)

var (
	lastReconciliation = fleet.NewGaugeByRule("node_readiness_rule_last_reconciliation_timestamp_seconds",
		"When a rule was last reconciled, in seconds since 1970. Only with --enable-node-state-metrics.")
)

var (
	rulesDesc = prometheus.NewDesc("node_readiness_rules_total", "Number of rules.", nil, nil)
	descs     = []*prometheus.Desc{rulesDesc}

	nodesDesc  = desc("node_readiness_rule_nodes", "Nodes that a rule matches, by state: held or released.", "state")
	statesDesc = desc("node_readiness_rule_node_states",
		"Nodes that a rule matches, by the state that its status shows: ready, held, exempt, failed or pending.", "state")
	byStateDesc = desc("node_readiness_nodes_by_state",
		"Nodes that a rule matches: ready, not_ready, or bootstrapping if a bootstrap-only rule holds them. Only with "+
			"--enable-node-state-metrics.", "state")
	guardedDesc   = desc("node_readiness_guarded_nodes", "Nodes whose pods a rule guards against eviction.")
	publishedDesc = desc("node_readiness_published_nodes",
		"Nodes with the condition that a rule publishes, by its status: True, False or Unknown.", "status")
	modeDesc = desc("node_readiness_rule_mode",
		"1 for the mode of a rule: Enforced, Suspended, DryRun, Frozen or Deleting.", "mode")
	overBudgetDesc = desc("node_readiness_over_budget_nodes",
		"Nodes that are not ready, but are not held because of the rule's maxUnavailable or limits.")
	oldestHoldDesc = desc("node_readiness_oldest_hold_seconds",
		"Time since the rule tainted the node that it has held the longest; 0 if it holds no node.")
	blockedDesc = desc("node_readiness_blocked_nodes",
		"Held nodes by the evidence that they wait for: a condition's type, or requirement/<name>. Only for rules with "+
			"conditionPolicy allOf.", "condition")
	overriddenDesc = desc("node_readiness_overridden_nodes",
		"Nodes on which the override annotation decides instead of the rule.")
)

// desc describes a metric with a label for the rule and perhaps more.
func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, append([]string{"rule"}, labels...), nil)
	descs = append(descs, d)
	return d
}

// Collector exposes the fleet's counts. Only the leader has any.
type Collector struct {
	Fleet *fleet.Fleet
	// NodeStates adds node_readiness_nodes_by_state.
	NodeStates bool
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Describe implements prometheus.Collector.
func (c Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c Collector) Collect(ch chan<- prometheus.Metric) {
	counts := c.Fleet.Counts()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(rulesDesc, float64(len(counts)))
	for _, n := range counts {
		nodes := n.Counts
		gauge(nodesDesc, float64(n.Closed), n.Rule, "held")
		gauge(nodesDesc, float64(nodes.Matched-n.Closed), n.Rule, "released")
		if c.NodeStates {
			notReady, bootstrapping := n.Closed, int32(0)
			if n.BootstrapOnly {
				notReady, bootstrapping = 0, n.Closed
			}
			gauge(byStateDesc, float64(nodes.Matched-n.Closed), n.Rule, "ready")
			gauge(byStateDesc, float64(notReady), n.Rule, "not_ready")
			gauge(byStateDesc, float64(bootstrapping), n.Rule, "bootstrapping")
		}
		for state, v := range map[string]int32{
			"ready": nodes.Ready, "held": nodes.Held, "exempt": nodes.Exempt, "failed": nodes.Failed, "pending": nodes.Pending,
		} {
			gauge(statesDesc, float64(v), n.Rule, state)
		}
		gauge(modeDesc, 1, n.Rule, n.Mode.String())
		gauge(overBudgetDesc, float64(n.OverBudget), n.Rule)
		gauge(overriddenDesc, float64(n.Overridden), n.Rule)
		gauge(guardedDesc, float64(n.Guarded), n.Rule)
		for status, count := range n.Published {
			gauge(publishedDesc, float64(count), n.Rule, string(status))
		}
		age := 0.0
		if !n.HeldSince.IsZero() {
			age = max(0, c.Clock.Since(n.HeldSince).Seconds())
		}
		gauge(oldestHoldDesc, age, n.Rule)
		for what, count := range n.Blocked {
			gauge(blockedDesc, float64(count), n.Rule, what)
		}
	}
}
