// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// TestNodesByState has nodes of all states under a rule of either mode: the incumbent's metrics have its two or three
// states, and ours the finer ones.
func TestNodesByState(t *testing.T) {
	now := time.Now()
	f := fleet.New(deaf{}, time.Now)
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
			current := nodeview.StateOf(r, node, now)
			entries = append(entries, fleet.Entry{Rule: r, Current: &current,
				Outcome: fleet.Outcome{State: s.state, Present: s.present}})
		}
		f.Record(node, entries, now)
	}

	// of is a metric of both rules as it is served: each value begins with the state.
	of := func(metric string, ofBootstrap, ofContinuous []string) string {
		text := "# HELP " + metric + " " + help[metric] + "\n# TYPE " + metric + " gauge\n"
		for i, values := range [][]string{ofBootstrap, ofContinuous} {
			for _, v := range values {
				state, n, _ := strings.Cut(v, " ")
				text += fmt.Sprintf("%s{rule=%q,state=%q} %s\n", metric, []string{"bootstrap", "continuous"}[i], state, n)
			}
		}
		return text
	}
	coarse := []string{"held 4", "released 5"}
	finer := []string{"exempt 1", "failed 2", "held 2", "pending 2", "ready 2"}
	want := of("node_readiness_rule_nodes", coarse, coarse) + of("node_readiness_rule_node_states", finer, finer)
	later := clocktesting.NewFakePassiveClock(now.Add(time.Minute))
	names := []string{"node_readiness_rule_nodes", "node_readiness_rule_node_states", "node_readiness_nodes_by_state"}
	collector := Collector{Fleet: f, Clock: later}
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want), names...); err != nil {
		t.Errorf("without --enable-node-state-metrics: %v", err)
	}
	want += of("node_readiness_nodes_by_state", []string{"bootstrapping 4", "not_ready 0", "ready 5"},
		[]string{"bootstrapping 0", "not_ready 4", "ready 5"})
	if err := testutil.CollectAndCompare(Collector{Fleet: f, NodeStates: true, Clock: later}, strings.NewReader(want),
		names...); err != nil {
		t.Errorf("with --enable-node-state-metrics: %v", err)
	}
}

// TestHolds: the age of the oldest hold starts with the claim, or with the node that an admission policy has tainted,
// and ends with it. Each piece of evidence counts the held nodes that wait for it.
func TestHolds(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	f := fleet.New(deaf{}, time.Now)
	r := ruleset.Compile(build.MakeRule("net").UID("n").Created(start).Selector("pool", "a").
		Condition("example.com/Ready").Condition("example.com/Fast").
		Taint("readiness.k8s.io/net", "", "NoSchedule").Obj(), nil, start)
	either := ruleset.Compile(build.MakeRule("any").UID("a").Created(start).Selector("pool", "a").AnyOf().
		Condition("example.com/Ready").Taint("readiness.k8s.io/any", "", "NoSchedule").Obj(), nil, start)
	record := func(node *corev1.Node, of *ruleset.Rule, state v1alpha1.NodeState, at time.Duration, missing ...string) {
		current := nodeview.StateOf(of, node, start.Add(at))
		e := fleet.Entry{Rule: of, Current: &current, Outcome: fleet.Outcome{State: state}}
		for _, c := range of.Spec.Conditions {
			status := v1alpha1.ConditionTrue
			if slices.Contains(missing, c.Type) {
				status = v1alpha1.ConditionFalse
			}
			e.Results = append(e.Results, v1alpha1.ConditionEvaluationResult{Type: c.Type, CurrentStatus: status,
				RequiredStatus: v1alpha1.ConditionTrue})
		}
		f.Record(node, []fleet.Entry{e}, start.Add(at))
	}
	node := func(name string, at time.Duration, rec *nodeview.Record) *corev1.Node {
		n := build.MakeNode(name).UID(name).Created(start.Add(at)).Label("pool", "a")
		if rec != nil {
			n.Annotation(r.RecordKey(), rec.Encode())
		}
		return n.Obj()
	}
	expect := func(what string, age, ready, fast int) {
		t.Helper()
		want := fmt.Sprintf(`# HELP node_readiness_blocked_nodes Held nodes by the evidence that they wait for: a `+
			`condition's type, or requirement/<name>. Only for rules with conditionPolicy allOf.
# TYPE node_readiness_blocked_nodes gauge
node_readiness_blocked_nodes{condition="example.com/Fast",rule="net"} %d
node_readiness_blocked_nodes{condition="example.com/Ready",rule="net"} %d
# HELP node_readiness_oldest_hold_seconds Time since the rule tainted the node that it has held the `+
			`longest; 0 if it holds no node.
# TYPE node_readiness_oldest_hold_seconds gauge
node_readiness_oldest_hold_seconds{rule="any"} 0
node_readiness_oldest_hold_seconds{rule="net"} %d
`, fast, ready, age)
		c := Collector{Fleet: f, Clock: clocktesting.NewFakePassiveClock(start.Add(time.Hour))}
		if err := testutil.CollectAndCompare(c, strings.NewReader(want), "node_readiness_blocked_nodes",
			"node_readiness_oldest_hold_seconds"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	claim := &nodeview.Record{Taint: "readiness.k8s.io/net=:NoSchedule"}
	claimed := &nodeview.Record{Taint: claim.Taint, Since: metav1.NewTime(start.Add(40 * time.Minute))}
	byController, byPolicy := node("c", 30*time.Minute, claimed), node("p", 20*time.Minute, claim)
	f.SetRules(ruleset.NewSet(r, either), nil, start)
	expect("no nodes", 0, 0, 0)
	record(byController, r, v1alpha1.NodeStateHeld, 40*time.Minute, "example.com/Ready", "example.com/Fast")
	expect("held since its claim", 20*60, 1, 1)
	record(byPolicy, r, v1alpha1.NodeStateHeld, 41*time.Minute, "example.com/Ready")
	expect("held since the node's creation", 40*60, 2, 1)
	record(node("p", 20*time.Minute, nil), r, v1alpha1.NodeStateReady, 50*time.Minute)
	expect("released", 20*60, 1, 1)
	record(byController, r, v1alpha1.NodeStateFailed, 55*time.Minute, "example.com/Ready")
	expect("the taint is not on the node that could not be written", 0, 0, 0)
	untimed := node("l", 0, &nodeview.Record{Taint: claim.Taint, Late: true})
	record(untimed, r, v1alpha1.NodeStateHeld, 50*time.Minute)
	record(untimed, r, v1alpha1.NodeStateHeld, 58*time.Minute)
	expect("labelled later: held since it was first seen", 10*60, 0, 0)
	f.Forget("l", start)
	expect("the node is gone", 0, 0, 0)
}

// help is compared, too.
var help = map[string]string{
	"node_readiness_rule_nodes": "Nodes that a rule matches, by state: held or released.",
	"node_readiness_rule_node_states": "Nodes that a rule matches, by the state that its status shows: ready, held, " +
		"exempt, failed or pending.",
	"node_readiness_nodes_by_state": "Nodes that a rule matches: ready, not_ready, or bootstrapping if a " +
		"bootstrap-only rule holds them. Only with --enable-node-state-metrics.",
}
