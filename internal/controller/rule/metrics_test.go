// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// TestNodesByState has nodes of all states under a rule of either mode: the incumbent's metrics have its two or three
// states, and ours the finer ones.
func TestNodesByState(t *testing.T) {
	now := time.Now()
	f := fleet.New(deaf{})
	continuous := build.MakeRule("continuous").UID("c")
	bootstrap := build.MakeRule("bootstrap").UID("b").BootstrapOnly()
	var rules []*ruleset.Rule
	for _, r := range []*build.RuleWrapper{continuous, bootstrap} {
		r.Selector("pool", "a").Condition("example.com/Ready").Taint("readiness.k8s.io/"+r.Name, "", "NoSchedule")
		rules = append(rules, ruleset.Compile(r.Obj(), nil, now))
	}
	states := map[string]struct {
		state   v1alpha1.NodeState
		present bool
	}{
		"ready": {v1alpha1.NodeStateReady, false}, "held": {v1alpha1.NodeStateHeld, true},
		"held too": {v1alpha1.NodeStateHeld, true}, "exempt": {v1alpha1.NodeStateExempt, false},
		"shared": {v1alpha1.NodeStateReady, true}, // another rule holds it by the same taint
		"failed": {v1alpha1.NodeStateFailed, false}, "failed, held": {v1alpha1.NodeStateFailed, true},
		"not looked at": {}, "not looked at, held": {"", true},
	}
	var nodes []*corev1.Node
	for name, s := range states {
		node := build.MakeNode(name).UID(name).Label("pool", "a")
		if s.present {
			node.Taint("readiness.k8s.io/continuous", "", "NoSchedule").Taint("readiness.k8s.io/bootstrap", "", "NoSchedule")
		}
		nodes = append(nodes, node.Obj())
	}
	f.SetRules(ruleset.NewSet(rules...), nodes, now)
	for _, node := range nodes {
		s := states[node.Name]
		if s.state == "" {
			continue
		}
		var entries []fleet.Entry
		for _, r := range rules {
			current := gate.StateOf(r, node, now)
			entries = append(entries, fleet.Entry{Rule: r, Current: &current,
				Outcome: fleet.Outcome{State: s.state, Present: s.present}})
		}
		f.Record(node, entries, now)
	}

	of := func(metric string, values ...string) string {
		return "# HELP " + metric + " " + help[metric] + "\n# TYPE " + metric + " gauge\n" + strings.Join(values, "\n") + "\n"
	}
	want := of("node_readiness_rule_nodes",
		`node_readiness_rule_nodes{rule="bootstrap",state="held"} 4`,
		`node_readiness_rule_nodes{rule="bootstrap",state="released"} 5`,
		`node_readiness_rule_nodes{rule="continuous",state="held"} 4`,
		`node_readiness_rule_nodes{rule="continuous",state="released"} 5`,
	) + of("node_readiness_rule_node_states",
		`node_readiness_rule_node_states{rule="bootstrap",state="exempt"} 1`,
		`node_readiness_rule_node_states{rule="bootstrap",state="failed"} 2`,
		`node_readiness_rule_node_states{rule="bootstrap",state="held"} 2`,
		`node_readiness_rule_node_states{rule="bootstrap",state="pending"} 2`,
		`node_readiness_rule_node_states{rule="bootstrap",state="ready"} 2`,
		`node_readiness_rule_node_states{rule="continuous",state="exempt"} 1`,
		`node_readiness_rule_node_states{rule="continuous",state="failed"} 2`,
		`node_readiness_rule_node_states{rule="continuous",state="held"} 2`,
		`node_readiness_rule_node_states{rule="continuous",state="pending"} 2`,
		`node_readiness_rule_node_states{rule="continuous",state="ready"} 2`,
	)
	names := []string{"node_readiness_rule_nodes", "node_readiness_rule_node_states", "node_readiness_nodes_by_state"}
	if err := testutil.CollectAndCompare(Collector{Fleet: f}, strings.NewReader(want), names...); err != nil {
		t.Errorf("without --enable-node-state-metrics: %v", err)
	}
	want += of("node_readiness_nodes_by_state",
		`node_readiness_nodes_by_state{rule="bootstrap",state="bootstrapping"} 4`,
		`node_readiness_nodes_by_state{rule="bootstrap",state="not_ready"} 0`,
		`node_readiness_nodes_by_state{rule="bootstrap",state="ready"} 5`,
		`node_readiness_nodes_by_state{rule="continuous",state="bootstrapping"} 0`,
		`node_readiness_nodes_by_state{rule="continuous",state="not_ready"} 4`,
		`node_readiness_nodes_by_state{rule="continuous",state="ready"} 5`,
	)
	if err := testutil.CollectAndCompare(Collector{Fleet: f, NodeStates: true}, strings.NewReader(want),
		names...); err != nil {
		t.Errorf("with --enable-node-state-metrics: %v", err)
	}
}

// help is compared, too.
var help = map[string]string{
	"node_readiness_rule_nodes": "Nodes that a rule matches, by state: held or released.",
	"node_readiness_rule_node_states": "Nodes that a rule matches, by the state that its status shows: ready, held, " +
		"exempt, failed or pending.",
	"node_readiness_nodes_by_state": "Nodes that a rule matches: ready, not_ready, or bootstrapping, if a " +
		"bootstrap-only rule holds them. With --enable-node-state-metrics only.",
}
