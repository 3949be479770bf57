// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
)

// Input is what is known.
type Input struct {
	// Node is the node.
	Node *corev1.Node
	// Rules are all rules, compiled.
	Rules *ruleset.Set
	// Reported are the statuses of the rules, by UID.
	Reported map[types.UID]*v1alpha1.NodeReadinessRuleStatus
	// Evidence is what requirements are judged by.
	Evidence *readiness.Evidence
	// Unread says why a requirement could not be read; empty, where it could.
	Unread func(*ruleset.Requirement) string
	// Reserve asks a rule's breaker for room; see gate.NodeInput.
	Reserve func(rule *ruleset.Rule, since time.Time) bool
	// Told is what events tell about a rule's taint: report.ByRule, report.ByOther, or nothing.
	Told func(rule *ruleset.Rule, taint corev1.Taint) string
	// Operator is whether the operator runs; nil, where that is not known.
	Operator *report.Operator
	// Now is the moment.
	Now time.Time
}

// Node explains a node.
func Node(in *Input) *report.NodeExplanation {
	set := in.Rules
	swept := taints.Sweep(in.Node, set, func(string) bool { return true })
	override, overrideErr := gate.OverrideOf(in.Node, in.Now)
	dec := &gate.NodeInput{
		Node: in.Node, Swept: swept.Node, Rules: set, Evidence: in.Evidence, Override: override, Now: in.Now,
		Observed: Observed, Reserve: in.Reserve,
	}
	out := gate.DecideNode(dec)
	plan := taints.Plan(in.Node, swept, out.Decisions, in.Now)

	e := &report.NodeExplanation{
		TypeMeta: report.Type(report.KindNodeExplanation),
		Node:     in.Node.Name, At: seconds(in.Now), CreatedAt: in.Node.CreationTimestamp,
		Ready: ready(in.Node), Unschedulable: in.Node.Spec.Unschedulable, Terminating: !in.Node.DeletionTimestamp.IsZero(),
		Override: overrideOf(in.Node, override, overrideErr), Operator: in.Operator,
		Rules: []report.RuleExplanation{},
	}
	for i := range out.Decisions {
		x := &explainer{in: in, d: &out.Decisions[i], verdict: out.Verdicts[i], plan: &plan}
		e.Rules = append(e.Rules, x.rule())
	}
	slices.SortStableFunc(e.Rules, func(a, b report.RuleExplanation) int { return cmp.Compare(rank(&a), rank(&b)) })
	for i := range e.Rules {
		if r := &e.Rules[i]; r.Taint != nil && r.Taint.Present && r.Taint.By != report.ByStranger && (r.State == v1alpha1.NodeStateHeld || r.Taint.By != report.ByOtherRule) {
			e.HeldBy = append(e.HeldBy, r.Rule)
		}
	}
	e.Held = len(e.HeldBy) > 0
	e.OtherTaints = otherTaints(in, out.Decisions)
	e.NotSelectedBy = notSelected(in)
	e.Next = next(e)
	e.Summary = summary(e)
	return e
}

// Observed is what to go by where nobody has watched the node: evidence that bears no time counts from now, as after a
// restart of the operator, or under a rule that was just put in force, from then.
func Observed(rule *ruleset.Rule) readiness.Observed {
	if rule.JustInForce {
		return readiness.Observed{Since: rule.InForceSince}
	}
	return readiness.Observed{}
}

// explainer explains one rule.
type explainer struct {
	in      *Input
	d       *gate.Decision
	verdict readiness.Verdict
	plan    *taints.Outcome
}

func (x *explainer) rule() report.RuleExplanation {
	rule := x.d.Rule
	r := report.RuleExplanation{
		Rule: rule.Name, Mode: rule.Mode.String(), State: x.d.State, Reason: x.d.Reason, Policy: v1alpha1.ConditionPolicyAllOf,
		ReleasedAt: report.Time(x.d.Was.Record.Released.Time), Reported: x.reported(),
	}
	if rule.Spec.AnyOf() {
		r.Policy = v1alpha1.ConditionPolicyAnyOf
	}
	for _, p := range rule.Problems {
		r.Problems = append(r.Problems, p.String())
	}
	unread := false
	if x.d.Was.Matches {
		r.Evidence, unread = x.evidence()
	}
	if unread = unread && !independent(x.d.Reason); unread {
		x.cannotTell(&r)
	}
	r.Taint = x.taint(unread)
	if r.Message == "" {
		r.Message = Message(x.d, &x.verdict, x.in.Now)
	}
	for _, e := range r.Evidence {
		if e.Satisfied != nil && !*e.Satisfied && !x.verdict.Ready {
			r.WaitsFor = append(r.WaitsFor, e.Message)
		}
	}
	if !unread {
		r.Guard = x.guard()
		r.Deadlines = x.deadlines()
	}
	return r
}

// independent reports whether evidence makes no difference to what is decided.
func independent(reason string) bool {
	switch reason {
	case gate.ReasonOverrideHold, gate.ReasonOverrideRelease, gate.ReasonCompleted, gate.ReasonNotInForce:
		return true
	}
	return false
}

// cannotTell is for a rule whose evidence could not be read: what the operator reports is all there is.
func (x *explainer) cannotTell(r *report.RuleExplanation) {
	r.State, r.Reason = "", ""
	r.Message = "some of its evidence could not be read, so that this cannot be judged here"
	if r.Reported != nil {
		r.State, r.Reason = r.Reported.State, r.Reported.Reason
		r.Message += "; the operator reports " + string(r.Reported.State) + ", " + r.Reported.Reason
	}
}

func (x *explainer) evidence() (out []report.Evidence, unread bool) {
	reported := x.reportedRequirements()
	for i := range x.verdict.Results {
		res := &x.verdict.Results[i]
		e := report.Evidence{
			Condition: res.Type, Requirement: res.Name, Satisfied: new(res.Satisfied), Message: res.Message(), Cause: string(res.Cause),
			Since: report.Time(res.Since), Heartbeat: report.Time(res.Heartbeat), ChangesAt: report.Time(res.ChangesAt),
		}
		if res.Name != "" {
			q := &x.d.Rule.Requirements[i-len(x.d.Rule.Spec.Conditions)]
			if why := x.in.Unread(q); why != "" {
				unread = true
				e.Satisfied, e.Cause, e.Since, e.ChangesAt = nil, "Unread", nil, nil
				e.Message = "requirement " + q.Name + " could not be read: " + why
				if m := reported[q.Name]; m != "" {
					e.Message += "; the operator reports: " + m
				}
			}
		}
		out = append(out, e)
	}
	return out, unread
}

// reported is what the rule's status says of the node.
func (x *explainer) reported() *report.Reported {
	status := x.in.Reported[x.d.Rule.UID]
	if status == nil {
		return nil
	}
	for _, f := range status.FailedNodes {
		if f.NodeName == x.in.Node.Name {
			return &report.Reported{State: v1alpha1.NodeStateFailed, Reason: f.Reason, Message: f.Message, At: f.LastEvaluationTime}
		}
	}
	for _, n := range status.NodeEvaluations {
		if n.NodeName == x.in.Node.Name && n.State != "" {
			return &report.Reported{State: n.State, Reason: n.Reason, At: n.LastEvaluationTime}
		}
	}
	return nil
}

func (x *explainer) reportedRequirements() map[string]string {
	out := map[string]string{}
	status := x.in.Reported[x.d.Rule.UID]
	if status == nil {
		return out
	}
	for _, n := range status.NodeEvaluations {
		if n.NodeName != x.in.Node.Name {
			continue
		}
		for _, q := range n.RequirementResults {
			out[q.Name] = q.Message
		}
	}
	return out
}

// rank puts first what holds the node.
func rank(r *report.RuleExplanation) int {
	present := r.Taint != nil && r.Taint.Present
	switch {
	case r.State == v1alpha1.NodeStateHeld && present:
		return 0
	case r.State == v1alpha1.NodeStateHeld:
		return 1
	case present:
		return 2
	case r.State == v1alpha1.NodeStateExempt:
		return 3
	case r.State == v1alpha1.NodeStateReady:
		return 4
	}
	return 5
}

func ready(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status)
		}
	}
	return ""
}

func overrideOf(node *corev1.Node, o gate.Override, err error) *report.Override {
	value, ok := node.Annotations[v1alpha1.OverrideAnnotation]
	if !ok {
		return nil
	}
	out := &report.Override{Value: value, Action: string(o.Action), Until: report.Time(o.Until)}
	switch {
	case err != nil:
		out.Problem = "it cannot be read, and is ignored: " + err.Error()
	case o.Action == gate.OverrideNone:
		out.Problem = "its time is over"
	}
	return out
}

func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
