// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
)

// Evidence is the evidence for requirements: a snapshot, or sources that are watched.
type Evidence interface {
	// Gather fills in the evidence on a node for all rules of a set.
	Gather(set *ruleset.Set, node string, e *evidence.Gathered)
	// Unread returns why a requirement cannot be evaluated, or "" if it can.
	Unread(r *evidence.Requirement) string
}

// Moment is what is known of a cluster at one time.
type Moment struct {
	// Rules are all rules, compiled.
	Rules *ruleset.Set
	// Stored are the same rules as they were read, with their statuses.
	Stored []v1alpha1.NodeReadinessRule
	// Evidence is the evidence for requirements.
	Evidence Evidence
	// Nodes reads all nodes. It is called if a rule's limit decides about a node.
	Nodes func() ([]*corev1.Node, error)
	// All reads the evidence of all nodes, if Evidence is that of some. It is called with Nodes.
	All func() Evidence
	// Pods reads the pods of a node. It is called if it makes a difference whether the node is in use.
	Pods func(node string) ([]corev1.Pod, error)
	// Frozen is why the operator changes nothing for any rule; nil if it does. The rules are frozen then.
	Frozen *ruleset.Problem
	// Operator tells whether the operator runs; nil if that is not known.
	Operator *report.Operator
	// Now is the time.
	Now time.Time

	fleet    *fleet.Fleet
	fleetErr error
	podsErr  error
}

// explainer explains one rule on one node.
type explainer struct {
	*Moment
	node    *corev1.Node
	all     *Decided
	d       *state.Decision
	verdict *readiness.Verdict
}

// Node explains a node.
func (w *Moment) Node(node *corev1.Node) *report.NodeExplanation {
	w.podsErr = nil
	all := Decide(node, w.Rules, w.Evidence, w.Now, func(rule *ruleset.Rule, ask limit.Request) string {
		return w.reserve(rule, node, ask)
	}, w.runs(node))
	maintenance, _ := v1alpha1.Maintenance(node.Annotations, w.Now)
	e := &report.NodeExplanation{
		TypeMeta: report.Type("NodeExplanation"), Node: node.Name, At: *report.Time(w.Now),
		CreatedAt: node.CreationTimestamp, Unschedulable: node.Spec.Unschedulable,
		Terminating: !node.DeletionTimestamp.IsZero(), Maintenance: maintenance,
		Override: override(node, w.Now), Operator: w.Operator, Rules: []report.RuleExplanation{},
	}
	if w.Frozen != nil {
		e.Frozen = w.Frozen.Message
	}
	if c := condition.Find(node, string(corev1.NodeReady)); c != nil {
		e.Ready = string(c.Status)
	}
	for i := range all.Decisions {
		x := &explainer{Moment: w, node: node, all: all, d: &all.Decisions[i], verdict: &all.Decisions[i].Verdict}
		e.Rules = append(e.Rules, x.rule())
	}
	slices.SortStableFunc(e.Rules, func(a, b report.RuleExplanation) int { return cmp.Compare(a.Rank(), b.Rank()) })
	for i := range e.Rules {
		r := &e.Rules[i]
		if t := r.Taint; t != nil && t.Present && t.By != report.ByForeign &&
			(r.State == v1alpha1.NodeStateHeld || t.By != report.ByOtherRule) {
			e.HeldBy = append(e.HeldBy, r.Rule)
		}
	}
	e.Held = len(e.HeldBy) > 0
	e.OtherTaints = otherTaints(node, w.Rules, all.Decisions)
	e.NotSelectedBy = notSelected(node, w.Rules)
	e.Next = next(e)
	e.Summary = summary(e)
	if w.fleetErr != nil {
		e.Unread = append(e.Unread, "whether the limit is reached: "+w.fleetErr.Error())
	}
	if w.podsErr != nil {
		e.Unread = append(e.Unread, "whether pods run on the node: "+w.podsErr.Error())
	}
	return e
}

// runs returns a function that reads the pods of a node once, and reports whether one of them counts.
func (w *Moment) runs(node *corev1.Node) Runs {
	pods := sync.OnceValues(func() ([]corev1.Pod, error) { return w.Pods(node.Name) })
	return func(counts func(*corev1.Pod) bool) (runs, known bool) {
		found, err := pods()
		w.podsErr = err
		return slices.ContainsFunc(found, func(pod corev1.Pod) bool { return counts(&pod) }), err == nil
	}
}

// reserve asks a rule's limits whether one more node may be tainted. If the nodes cannot be listed, one may.
func (w *Moment) reserve(rule *ruleset.Rule, node *corev1.Node, ask limit.Request) (why string) {
	if w.fleet == nil && w.fleetErr == nil {
		var nodes []*corev1.Node
		nodes, w.fleetErr = w.Nodes()
		w.fleet = fleet.New(quiet{}, func() time.Time { return w.Now })
		w.fleet.Restore(w.Stored)
		w.fleet.SetRules(w.Rules, nodes, w.Now)
		issue(w.fleet, w.Rules, w.Stored, w.Now)
		w.others(nodes)
	}
	if w.fleetErr != nil {
		return ""
	}
	return w.fleet.Reserve(rule.UID, node.Name, ask)
}

// issue lets the rates of rules allow what they allow by the rules' statuses.
func issue(f *fleet.Fleet, rules *ruleset.Set, stored []v1alpha1.NodeReadinessRule, now time.Time) {
	times := map[types.UID]*v1alpha1.RateStatus{}
	for i := range stored {
		times[stored[i].UID] = stored[i].Status.Rate
	}
	for _, rule := range rules.All() {
		f.Issue(rule, rule.Limit.Allows(times[rule.UID], now))
	}
}

// others reserves for all nodes what the limits allow. Else the node in question would always be the first.
func (w *Moment) others(nodes []*corev1.Node) {
	known := w.Evidence
	if w.All != nil && len(nodes) > 0 {
		known = w.All()
	}
	distribute(w.fleet, nodes, func(node *corev1.Node, reserve Reserve) {
		Decide(node, w.Rules, known, w.Now, reserve, nil) // reading the pods of each node would take a request for each
	})
}

// distribute reserves what the limits leave. Nodes that are unready for longest come first.
func distribute(f *fleet.Fleet, nodes []*corev1.Node, decide func(*corev1.Node, Reserve)) {
	type claim struct {
		rule types.UID
		node string
		limit.Request
	}
	var claims []claim
	for _, node := range nodes {
		decide(node, func(rule *ruleset.Rule, ask limit.Request) string {
			claims = append(claims, claim{rule.UID, node.Name, ask})
			return ""
		})
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.node, b.node))
	})
	for _, c := range claims {
		f.Reserve(c.rule, c.node, c.Request)
	}
}

// Decided has the decisions about one node, and what the operator writes for them.
type Decided struct {
	gate.Outcome
	Plan taints.Outcome
}

// Reserve asks a rule's limits whether one more node may be tainted, and returns why not.
type Reserve = taints.Reserve

// Runs reports whether a pod that counts runs on a node, if that is known.
type Runs func(counts func(*corev1.Pod) bool) (runs, known bool)

// Decide decides about a node as the operator does. Rules that are not in the set are deleted.
func Decide(node *corev1.Node, rules *ruleset.Set, known Evidence, now time.Time,
	reserve Reserve, runs Runs,
) *Decided {
	override, _ := nodeview.OverrideOf(node, now) // an override that cannot be read is ignored
	swept := taints.Sweep(taints.Succeed(node, rules), rules, func(string) (time.Time, bool) { return time.Time{}, true },
		nil, now)
	in := &gate.NodeInput{
		Node: node, Swept: swept.Node, Rules: rules, Evidence: &evidence.Gathered{}, Override: override, Now: now,
		Observed: observed, Orphans: swept.Published,
	}
	if runs != nil {
		in.Busy = func() (bool, bool) { return runs(sources.Busy) }
		in.Occupied = func(taint *corev1.Taint) (bool, bool) { return runs(sources.Occupies(taint)) }
	}
	known.Gather(rules, node.Name, in.Evidence)
	d := &Decided{}
	decide := func(noRoom map[types.UID]bool, reserve Reserve) []state.Decision {
		in.NoRoom, in.Reserve = noRoom, reserve
		d.Outcome = gate.DecideNode(in)
		return d.Decisions
	}
	d.Plan = taints.Decide(node, swept, now, reserve, decide)
	return d
}

// does reports whether the plan has an operation for a rule.
func (d *Decided) does(rule *ruleset.Rule, operations ...taints.Operation) bool {
	return slices.ContainsFunc(d.Plan.Changes, func(c taints.Change) bool {
		return c.Rule == rule && (len(operations) == 0 || slices.Contains(operations, c.Operation))
	})
}

// observed tells since when evidence without a time is as it is: since now, as after a restart of the operator, or
// since a rule was put in force just now.
func observed(rule *ruleset.Rule) readiness.Observed {
	if rule.JustInForce {
		return readiness.Observed{Since: rule.InForceSince, Assumed: true}
	}
	return readiness.Observed{}
}

// quiet is a fleet's listener that ignores everything.
type quiet struct{}

func (quiet) RuleChanged(string) {}
func (quiet) Enqueue([]string)   {}

func (x *explainer) rule() report.RuleExplanation {
	rule := x.d.Rule
	r := report.RuleExplanation{
		Rule: rule.Name, Mode: rule.Mode.String(), State: x.d.State, Reason: x.d.Reason,
		Policy: v1alpha1.ConditionPolicyAllOf, ReleasedAt: report.Time(x.d.Was.Record.FirstReady()),
		New:      x.d.Was.Fresh(&x.d.Was.Record),
		Problems: state.Problems(rule),
	}
	if rule.Spec.AnyOf() {
		r.Policy = v1alpha1.ConditionPolicyAnyOf
	}
	r.Unreported = x.unreported()
	reported := x.reported(&r)
	unread := false
	if x.d.Was.Matches {
		r.Evidence, unread = x.evidence(reported)
	}
	switch x.d.Reason {
	case state.ReasonOverrideHold, state.ReasonOverrideRelease, state.ReasonCompleted, state.ReasonNotInForce:
		unread = false // the evidence makes no difference
	}
	r.Taint, r.Health = x.taint(unread), x.health(unread)
	r.Published = published(x.d, x.node)
	r.Replacement = x.replacement()
	for _, e := range r.Evidence {
		if e.Satisfied != nil && !*e.Satisfied && !x.verdict.Ready {
			r.WaitsFor = append(r.WaitsFor, e.Message)
		}
	}
	if !unread {
		r.Message, r.Guard, r.Deadlines = x.d.Message(x.Now), x.guard(), x.deadlines()
		return r
	}
	r.State, r.Reason, r.Message = "", "", "some of its evidence cannot be read, so the plugin cannot evaluate the rule"
	if r.Reported != nil {
		r.State, r.Reason = r.Reported.State, r.Reported.Reason
		r.Message += "; the operator reports " + string(r.Reported.State) + ", " + r.Reported.Reason
	}
	return r
}

// health returns the rule's verdict for /health, as it is in the node's record.
func (x *explainer) health(unread bool) *report.Health {
	if x.d.Rule.Spec.Health == nil || !x.d.Was.Matches {
		return nil
	}
	h := &report.Health{Verdict: x.d.Was.Record.Health}
	if next := x.d.Record.Health; next != h.Verdict && !unread && !x.d.Frozen {
		h.Change = next
	}
	return h
}

// published returns the node condition that the rule publishes, as it is on the node.
func published(d *state.Decision, node *corev1.Node) *report.Published {
	t := d.Rule.Spec.Publishes()
	if t == "" || !d.Was.Matches {
		return nil
	}
	p := &report.Published{Type: t, Problem: d.Unpublished}
	if c := nodeview.Published(node, t); c != nil && p.Problem == "" {
		p.Status, p.Reason = string(c.Status), c.Reason
		if d.State == v1alpha1.NodeStateHeld && c.Reason == v1alpha1.PublishedReasonPrefix+state.ReasonOverBudget {
			p.Message = c.Message
		}
	}
	return p
}

// evidence returns each piece of evidence, and whether some of it could not be read.
func (x *explainer) evidence(reported map[string]string) (out []report.Evidence, unread bool) {
	for i := range x.verdict.Results {
		res := &x.verdict.Results[i]
		e := report.Evidence{
			Condition: res.Type, Requirement: res.Name, Satisfied: new(res.Satisfied), Message: res.Message(),
			Cause: string(res.Cause), Since: report.Time(res.Since), Heartbeat: report.Time(res.Heartbeat),
			ChangesAt: report.Time(res.ChangesAt),
		}
		if res.Name != "" {
			q := &x.d.Rule.Requirements[i-len(x.d.Rule.Spec.Conditions)]
			if why := x.Evidence.Unread(q); why != "" {
				unread = true
				e.Satisfied, e.Cause, e.Since, e.ChangesAt = nil, "Unread", nil, nil
				e.Message = "requirement " + q.Name + " cannot be read: " + why
				if m := reported[q.Name]; m != "" {
					e.Message += "; the operator reports: " + m
				}
			}
		}
		out = append(out, e)
	}
	return out, unread
}

// stored returns the rule as it was read; nil if it was not.
func (x *explainer) stored() *v1alpha1.NodeReadinessRule {
	i := slices.IndexFunc(x.Stored, func(o v1alpha1.NodeReadinessRule) bool { return o.UID == x.d.Rule.UID })
	if i < 0 {
		return nil
	}
	return &x.Stored[i]
}

// reportTime is how long an operator may take to report on a new rule.
const reportTime = time.Minute

// unreported reports whether nothing acts on the rule: no operator has ever reported on it, although one leads, or none
// is known.
func (x *explainer) unreported() bool {
	s := x.stored()
	return s != nil && report.Unreported(s) && (x.Operator == nil ||
		x.Operator.Leads && x.Now.Sub(s.CreationTimestamp.Time) > reportTime)
}

// reported fills in what the rule's status says of the node, and returns its messages about requirements.
func (x *explainer) reported(r *report.RuleExplanation) map[string]string {
	stored := x.stored()
	if stored == nil {
		return nil
	}
	status, messages := &stored.Status, map[string]string{}
	for _, n := range status.NodeEvaluations {
		if n.NodeName != x.node.Name {
			continue
		}
		if n.State != "" {
			r.Reported = &report.Reported{State: n.State, Reason: n.Reason, At: n.LastEvaluationTime}
		}
		for _, q := range n.RequirementResults {
			messages[q.Name] = q.Message
		}
	}
	for _, f := range status.FailedNodes {
		if f.NodeName == x.node.Name {
			r.Reported = &report.Reported{State: v1alpha1.NodeStateFailed, Reason: f.Reason, Message: f.Message,
				At: f.LastEvaluationTime}
		}
	}
	return messages
}

func override(node *corev1.Node, now time.Time) *report.Override {
	value, ok := node.Annotations[v1alpha1.OverrideAnnotation]
	if !ok {
		return nil
	}
	o, err := nodeview.OverrideOf(node, now)
	out := &report.Override{Value: value, Action: string(o.Action), Until: report.Time(o.Until)}
	switch {
	case err != nil:
		out.Problem = err.Error()
	case o.Action == nodeview.OverrideNone:
		out.Problem = "its time is over"
	}
	return out
}
