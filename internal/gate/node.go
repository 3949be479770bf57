// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// NodeInput is what is decided from.
type NodeInput struct {
	// Node is the node as it was read.
	Node *corev1.Node
	// Swept is the same without what rules left there that are gone.
	Swept *corev1.Node
	// Rules are all rules.
	Rules *ruleset.Set
	// Evidence is what requirements are judged by. Its Rules are filled in as the rules are judged.
	Evidence *readiness.Evidence
	// Override is what a person asks for.
	Override Override
	// Observed is what was seen of a rule on this node before; nil, where nothing was.
	Observed func(*ruleset.Rule) readiness.Observed
	// Reserve asks a rule's limit for room for a claim on a node that is not ready since the given time.
	Reserve func(rule *ruleset.Rule, since time.Time) bool
	// Busy says whether pods run on the node that are not part of it; see Input.
	Busy func() (busy, known bool)
	// Occupied says whether a pod runs on the node that a taint would evict or refuse; see Input.
	Occupied func(*corev1.Taint) (occupied, known bool)
	// Evaluate judges one rule. By default readiness.Evaluate; a benchmark replaces it.
	Evaluate func(*ruleset.Rule, *readiness.Facts, time.Time) readiness.Verdict
	// Live lists the pods of a namespace on the node from the API server, for a node that has rebooted; nil: Evidence is
	// as good.
	Live func(namespace string, selector labels.Selector) []*corev1.Pod
	// Evicted says whether the pods are evicted that were due when a rule's guard ended; see Input.
	Evicted func(*ruleset.Rule) bool
	// Objective is within what time a node should be released for the first time; see Input.
	Objective time.Duration
	// MayMark asks whether the rule's limit allows that its condition becomes False on the node; nil: it does.
	MayMark func(rule *ruleset.Rule) bool
	// Orphans are the types of conditions that rules left that are gone.
	Orphans []string
	// Now is the moment.
	Now time.Time
}

// Outcome is what was decided, for the rules that concern the node, each after those that it requires.
type Outcome struct {
	Decisions []Decision
	// Verdicts are those that were decided by, in the same order.
	Verdicts []readiness.Verdict
	// Conditions are the changes of the conditions that rules publish.
	Conditions []ConditionChange
	// RecheckAt is when to decide again without any other cause; zero: not.
	RecheckAt time.Time
}

// DecideNode decides about a node.
func DecideNode(in *NodeInput) Outcome {
	var out Outcome
	evaluate := in.Evaluate
	if evaluate == nil {
		evaluate = readiness.Evaluate
	}
	chained, publishes := in.Rules.Chained(), in.Rules.Publishes()
	if chained {
		in.Evidence.Rules = map[string]readiness.Satisfaction{}
	}
	ordered := in.Rules.Ordered()
	out.Decisions, out.Verdicts = make([]Decision, 0, len(ordered)), make([]readiness.Verdict, 0, len(ordered))
	facts := in.facts()
	for _, rule := range ordered {
		state := StateOf(rule, in.Swept, in.Now)
		if chained {
			in.Evidence.Rules[rule.Name] = readiness.Satisfaction{Matches: state.Matches}
		}
		if !state.Concerns(rule, in.Node) {
			continue
		}
		var verdict readiness.Verdict
		if state.Matches || !state.Record.GuardedSince.IsZero() { // a guard ends without evictions where the node is good
			facts.Boot, facts.Service = state.Boot, state.service(rule, in.Node)
			if in.Observed != nil {
				facts.Observed = in.Observed(rule)
			}
			verdict = evaluate(rule, facts, in.Now)
			facts.Results = verdict.Results[len(verdict.Results):]
		}
		one := Input{
			Rule: rule, Node: in.Swept, State: state, Verdict: verdict, Override: in.Override, Busy: in.Busy,
			Occupied: in.Occupied, Watched: in.Observed != nil && in.Observed(rule).Watched,
			Objective: in.Objective, Now: in.Now,
		}
		if in.Evicted != nil {
			one.Evicted = func() bool { return in.Evicted(rule) }
		}
		d := Decide(one)
		verdict.Observed.Watched = rule.Mode == ruleset.Enforced && (one.Watched || !state.Rebooted)
		if d.Limited && !in.Reserve(rule, verdict.Since) {
			d = d.Refuse()
		}
		out.recheck(d.RecheckAt)
		if chained {
			in.Evidence.Rules[rule.Name] = readiness.Satisfaction{Matches: state.Matches,
				Holds: d.State == v1alpha1.NodeStateReady, Refuted: publishes && refuted(&d, &verdict)}
		}
		if publishes {
			d.Publication = one.publication(&d)
		}
		out.Decisions = append(out.Decisions, d)
		out.Verdicts = append(out.Verdicts, verdict)
	}
	in.publish(&out)
	return out
}

// recheck asks to decide again at a time, unless that is zero.
func (o *Outcome) recheck(at time.Time) {
	if !at.IsZero() && (o.RecheckAt.IsZero() || at.Before(o.RecheckAt)) {
		o.RecheckAt = at
	}
}

// facts are what rules are judged by, with room for the results of all of them.
func (in *NodeInput) facts() *readiness.Facts {
	results := 0
	for _, rule := range in.Rules.All() {
		results += len(rule.Spec.Conditions) + len(rule.Requirements)
	}
	return &readiness.Facts{Node: in.Node, Rules: in.Rules, Evidence: in.Evidence, Live: in.Live,
		Results: make([]readiness.Result, 0, results)}
}
