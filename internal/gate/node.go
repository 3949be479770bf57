// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/publish"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
)

// NodeInput is the input of DecideNode.
type NodeInput struct {
	// Node is the node as it was read.
	Node *corev1.Node
	// Swept is the same node without what deleted rules left.
	Swept *corev1.Node
	// Rules are all rules.
	Rules *ruleset.Set
	// Evidence is the evidence for requirements. DecideNode fills in Evidence.Rules, rule by rule.
	Evidence *evidence.Gathered
	// Arrivals is what this process remembers of heartbeats far in the future. It may be nil.
	Arrivals *evidence.Arrivals
	// Override is the override of the node, or the zero value.
	Override nodeview.Override
	// Observed returns what this process has observed before about a rule on this node. It may be nil.
	Observed func(*ruleset.Rule) readiness.Observed
	// Reserve asks the limits whether a rule may claim its taint on the node. It returns why not, or "".
	Reserve func(*ruleset.Rule, limit.Request) (why string)
	// NoRoom holds the rules for whose claim the node's annotations have no room; see Input.
	NoRoom map[types.UID]bool
	// Busy reports whether pods run on the node that are not part of it; see Input.
	Busy func() (busy, known bool)
	// Occupied reports whether a pod runs on the node that a taint would evict or refuse; see Input.
	Occupied func(*corev1.Taint) (occupied, known bool)
	// Evaluate returns the verdict of one rule. The default is readiness.Evaluate. The operator wraps it to measure
	// time.
	Evaluate func(*ruleset.Rule, *evidence.Facts, readiness.Observed, time.Time) readiness.Verdict
	// Live lists the pods of a namespace on the node from the API server, for a node that has rebooted. If it is nil,
	// the pods of Evidence are used.
	Live func(namespace string, selector labels.Selector) (pods []*corev1.Pod, known bool)
	// Evicted reports whether all pods are evicted that were due when a rule's guard ended; see Input.
	Evicted func(*ruleset.Rule) bool
	// Objective is the time within which a node should be released for the first time; see Input.
	Objective time.Duration
	// MayMark asks the limits whether the published condition may become False on the node. It returns why not, or "". nil
	// means that it may.
	MayMark func(*ruleset.Rule, limit.Request) (why string)
	// Orphans are the types of the conditions that deleted rules published.
	Orphans []string
	// Now is the time of all decisions.
	Now time.Time
}

// Outcome holds the decisions of the rules that concern the node. Each rule comes after the rules that it requires.
type Outcome struct {
	Decisions []state.Decision
	// Conditions are the changes of the conditions that rules publish.
	Conditions []publish.ConditionChange
	// RecheckAt is when to decide again even if nothing changes. Zero means never.
	RecheckAt time.Time
}

// DecideNode makes the decisions of all rules about a node.
func DecideNode(in *NodeInput) Outcome {
	out := Outcome{RecheckAt: in.Override.Until} // then its annotation is removed, also where no rule matches
	_, maintained := v1alpha1.Maintenance(in.Node.Annotations, in.Now)
	out.recheck(maintained) // then it may be replaced
	evaluate := in.Evaluate
	if evaluate == nil {
		evaluate = readiness.Evaluate
	}
	chained, publishes := in.Rules.Chained(), in.Rules.Publishes()
	if chained {
		in.Evidence.Rules = map[string]evidence.Satisfaction{}
	}
	ordered := in.Rules.Ordered()
	out.Decisions = make([]state.Decision, 0, len(ordered))
	displaced := in.Rules.Displaced(in.Node.Labels)
	var contents []publish.Content // of the conditions that the rules publish, if any does
	if publishes {
		contents = make([]publish.Content, 0, len(ordered))
	}
	facts := in.facts()
	for _, rule := range ordered {
		was := nodeview.StateOf(rule, in.Swept, in.Now)
		if chained {
			in.Evidence.Rules[rule.Name] = evidence.Satisfaction{Matches: was.Matches}
		}
		if !was.Concerns(rule, in.Node) {
			continue
		}
		var verdict readiness.Verdict
		var observed readiness.Observed
		if in.Observed != nil {
			observed = in.Observed(rule)
		}
		if was.Matches || !was.Record.GuardedSince.IsZero() { // a guard ends without evictions where the node is good
			facts.Boot, facts.Service = was.Boot, was.Service(rule, in.Node)
			verdict = evaluate(rule, facts, observed, in.Now)
			facts.Results = verdict.Results[len(verdict.Results):]
		}
		one := nodeview.Input{
			Rule: rule, Node: in.Swept, State: was, Verdict: verdict, Override: in.Override, Busy: in.Busy,
			Occupied: in.Occupied, Watched: observed.Watched, NoRoom: in.NoRoom[rule.UID], Objective: in.Objective,
			Now: in.Now,
		}
		if in.Evicted != nil {
			one.Evicted = func() bool { return in.Evicted(rule) }
		}
		choice := state.Decide(one)
		remember(&verdict, observed, &one)
		d := &choice.Granted
		if choice.Otherwise != nil {
			ask := limit.Request{Since: verdict.Changed, Domains: was.Domains, Held: choice.Held}
			if why := in.Reserve(rule, ask); why != "" {
				d = choice.Otherwise
				d.Limit = why
			}
		}
		d.Verdict = verdict
		out.recheck(d.RecheckAt)
		d.Unpublished, d.Unprobed = displaced[rule.Name].Verdict, displaced[rule.Name].Probe
		plain := withoutOverride(one, d, in.Reserve)
		if chained {
			out.recheck(plain.RecheckAt)
			in.Evidence.Rules[rule.Name] = evidence.Satisfaction{Matches: was.Matches,
				Unknown: unknown(plain), Booting: plain.Booting || plain.Verdict.Booting, SinceBoot: sinceBoot(plain, in.Node),
				Satisfied: plain.State == v1alpha1.NodeStateReady, Refuted: publishes && publish.Refuted(plain)}
		}
		if publishes {
			contents = append(contents, publish.ContentOf(plain))
		}
		out.Decisions = append(out.Decisions, *d)
	}
	changes, at := publish.Decide(publish.Input{Node: in.Node, Decisions: out.Decisions, Contents: contents,
		Orphans: in.Orphans, MayMark: in.MayMark, Now: in.Now})
	out.Conditions = changes
	out.recheck(at)
	return out
}

// remember sets what the next evaluation needs to know of this one. before is what the one before left.
func remember(v *readiness.Verdict, before readiness.Observed, in *nodeview.Input) {
	if in.Rule.Mode == ruleset.Frozen || v.Unknown { // package fleet sets Unread when the rule is no longer frozen
		v.Observed = before
		v.Observed.Unread = v.Unknown
	}
	was := &in.State
	v.Observed.Watched = in.Rule.Mode == ruleset.Enforced && (in.Watched || !was.Rebooted)
	v.Observed.Unarmed = in.Rule.Spec.RearmsOnReboot() && was.Boot.Bound.IsZero() &&
		(before.Unarmed || was.Record.BootID == "")
}

// unknown reports whether nothing follows from the state of a node under a rule, because evidence could not be read or
// is not judged yet. In dry-run, the reason does not say so.
func unknown(d *state.Decision) bool {
	return d.Booting || d.Verdict.Unknown && d.State == v1alpha1.NodeStateExempt
}

// sinceBoot reports whether a rule has re-armed the node at its last boot, unless this process knows better, and does
// not wait for evidence from after the boot any more.
func sinceBoot(d *state.Decision, node *corev1.Node) bool {
	return !d.Verdict.Observed.Unarmed && d.Rule.Spec.RearmsOnReboot() && d.Record.NotBefore.IsZero() &&
		d.Record.BootID == nodeview.BootID(node.Status.NodeInfo.BootID)
}

// withoutOverride returns what the decision would be without an override. That is what other rules require and what the
// rule publishes: a person who releases or holds a node says nothing about its evidence. The node does not wait for the
// limits, and a condition that is False needs no room.
func withoutOverride(in nodeview.Input, d *state.Decision,
	reserve func(*ruleset.Rule, limit.Request) string) *state.Decision {
	if in.Override.Action == nodeview.OverrideNone {
		return d
	}
	node := *in.Node
	node.Annotations = maps.Clone(node.Annotations)
	delete(node.Annotations, v1alpha1.OverrideAnnotation)
	in.Node, in.Override, in.State = &node, nodeview.Override{}, nodeview.StateOf(in.Rule, &node, in.Now)
	choice := state.Decide(in)
	plain := &choice.Granted
	ask := limit.Request{Domains: in.State.Domains, Peek: true}
	if choice.Otherwise != nil && !in.State.MarkedFalse && reserve(in.Rule, ask) != "" {
		plain = choice.Otherwise
	}
	plain.Verdict = d.Verdict
	return plain
}

// recheck requests another decision at a time, unless the time is zero.
func (o *Outcome) recheck(at time.Time) {
	if !at.IsZero() && (o.RecheckAt.IsZero() || at.Before(o.RecheckAt)) {
		o.RecheckAt = at
	}
}

// facts returns the input of the verdicts, with a buffer for the results of all rules.
func (in *NodeInput) facts() *evidence.Facts {
	results := 0
	for _, rule := range in.Rules.All() {
		results += len(rule.Spec.Conditions) + len(rule.Requirements)
	}
	return &evidence.Facts{Node: in.Node, Manager: in.Rules.ManagerName, Gathered: in.Evidence, Live: in.Live,
		Arrivals: in.Arrivals, Results: make([]evidence.Result, 0, results)}
}
