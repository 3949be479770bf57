// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package kill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
)

// judge compares what a fresh list shows with what the pure packages make of it.
type judge struct {
	w     *model
	now   time.Time
	rules map[types.UID]*v1alpha1.NodeReadinessRule
	nodes []corev1.Node
	set   *ruleset.Set
	tally map[types.UID]*tally

	complaints []string
	suspects   map[string]bool // nodes that were complained about
}

// tally is what a rule's status is to say.
type tally struct {
	counts            v1alpha1.NodeCounts
	released, claimed int
	waiting, shared   int
}

// newJudge lists everything.
func newJudge(ctx context.Context, w *model) (*judge, error) {
	rules, nodes := &v1alpha1.NodeReadinessRuleList{}, &corev1.NodeList{}
	if err := w.Client.List(ctx, rules); err != nil {
		return nil, err
	}
	if err := w.Client.List(ctx, nodes); err != nil {
		return nil, err
	}
	j := &judge{w: w, now: time.Now(), rules: map[types.UID]*v1alpha1.NodeReadinessRule{}, nodes: nodes.Items,
		tally: map[types.UID]*tally{}, suspects: map[string]bool{}}
	var compiled []*ruleset.Rule
	for i := range rules.Items {
		rule := &rules.Items[i]
		j.rules[rule.UID] = rule
		j.tally[rule.UID] = &tally{}
		compiled = append(compiled, ruleset.Compile(rule, nil, j.now))
		if e := w.rules.entry(rule.Name); e == nil || e.uid != rule.UID || !rule.DeletionTimestamp.IsZero() {
			j.complain("rule %s (%s) was deleted and is there, finalizers %v", rule.Name, rule.UID, rule.Finalizers)
		}
	}
	j.set = ruleset.NewSet(compiled...)
	for _, name := range w.rules.names() {
		if j.set.Named(name) == nil {
			j.complain("rule %s is lost", name)
		}
	}
	return j, nil
}

func (j *judge) complain(format string, args ...any) {
	j.complaints = append(j.complaints, fmt.Sprintf(format, args...))
}

func (j *judge) accuse(node *corev1.Node, format string, args ...any) {
	j.suspects[node.Name] = true
	j.complain("node "+node.Name+": "+format, args...)
}

// verdict is all complaints; none if the operator is done, and right.
func (j *judge) verdict() []string {
	there := 0
	for _, s := range j.w.slots {
		if s.there {
			there++
		}
	}
	if there != len(j.nodes) {
		j.complain("there are %d nodes, not %d", len(j.nodes), there)
	}
	for i := range j.nodes {
		j.node(&j.nodes[i])
	}
	for uid := range j.rules {
		j.rule(uid)
	}
	return j.complaints
}

// node judges one node.
func (j *judge) node(node *corev1.Node) {
	s := j.w.slots[slices.IndexFunc(j.w.slots, func(s *slot) bool { return s.name == node.Name })]
	if diff := s.lost(node); diff != "" {
		j.accuse(node, "foreign taints are not as they were written last (-written +found):\n%s", diff)
	}
	for key := range node.Annotations {
		if isMark(key) && j.rules[types.UID(ruleOf(key))] == nil {
			j.accuse(node, "annotation %s is left of a rule that is gone", key)
		}
	}
	gone := func(ref string) bool { return j.rules[types.UID(ref)] == nil && j.set.Named(ref) == nil }
	swept := taints.Sweep(node, j.set, gone)
	override, _ := gate.OverrideOf(node, j.now)
	var decisions []gate.Decision
	for _, rule := range j.set.All() {
		standing := gate.StateOf(rule, swept.Node, j.now)
		if !standing.Concerns(rule, node) {
			continue
		}
		verdict := j.evaluate(rule, node, standing)
		d := gate.Decide(gate.Input{Rule: rule, Node: swept.Node, State: standing, Verdict: verdict, Override: override,
			Now: j.now})
		d = j.count(rule, standing, d)
		decisions = append(decisions, d)
	}
	outcome := taints.Plan(node, swept, decisions, j.now)
	if outcome.Patch != nil {
		j.accuse(node, "is not as it is to be: %s", outcome.Patch)
	}
	for uid := range outcome.Shared {
		j.tally[uid].shared++
	}
}

// evaluate judges a rule as a process does that has known the node for long: all windows have passed.
func (j *judge) evaluate(rule *ruleset.Rule, node *corev1.Node, standing gate.State) readiness.Verdict {
	if !standing.Matches {
		return readiness.Verdict{}
	}
	facts := &readiness.Facts{Node: node, Boot: standing.Boot}
	facts.Observed = readiness.Observed{Ready: readiness.Evaluate(rule, facts, j.now).Ready, Since: j.now.Add(-time.Hour)}
	return readiness.Evaluate(rule, facts, j.now)
}

// count counts a node for a rule's status, and takes its limit into account.
func (j *judge) count(rule *ruleset.Rule, standing gate.State, d gate.Decision) gate.Decision {
	n := j.tally[rule.UID]
	if standing.Counted {
		n.released++
		if standing.Claimed {
			n.claimed++
		}
	}
	if d.Limited {
		n.waiting++
		d = d.Refuse()
	}
	if !standing.Matches {
		return d
	}
	n.counts.Matched++
	switch d.State {
	case v1alpha1.NodeStateReady:
		n.counts.Ready++
	case v1alpha1.NodeStateHeld:
		n.counts.Held++
	case v1alpha1.NodeStateExempt:
		n.counts.Exempt++
	}
	return d
}

// rule judges a rule's status, and its limit.
func (j *judge) rule(uid types.UID) {
	rule, n, compiled := j.rules[uid], j.tally[uid], j.set.Rule(uid)
	st := &rule.Status
	if rule.Generation != st.ObservedGeneration || st.Nodes == nil || *st.Nodes != n.counts {
		j.complain("rule %s at generation %d has counts %+v; its status, of generation %d, says %+v",
			rule.Name, rule.Generation, n.counts, st.ObservedGeneration, st.Nodes)
	}
	if !slices.Equal(rule.Finalizers, []string{v1alpha1.Finalizer}) {
		j.complain("rule %s has finalizers %v", rule.Name, rule.Finalizers)
	}
	j.condition(rule, v1alpha1.ConditionEnforcing, compiled.Mode == ruleset.Enforced)
	j.condition(rule, v1alpha1.ConditionBudgetExhausted, n.waiting > 0)
	j.condition(rule, v1alpha1.ConditionConflicted, n.shared > 0)
	j.condition(rule, v1alpha1.ConditionNodesReady, n.counts.Ready == n.counts.Matched)
	if !compiled.Limited() {
		return
	}
	if room := compiled.MaxUnavailable(n.released) - n.claimed; n.waiting > 0 && room > 0 {
		j.complain("rule %s: %d nodes are not ready and not held, and there is room for %d (%d of %d in service are held)",
			rule.Name, n.waiting, room, n.claimed, n.released)
	}
	most := compiled.MaxUnavailable(n.released)
	if rule.Spec.MaxUnavailable.Type == intstr.String { // nodes in service may have gone since
		most = compiled.MaxUnavailable(slots)
	}
	if n.claimed > most {
		j.complain("rule %s: %d nodes in service are held, and %d may be", rule.Name, n.claimed, most)
	}
}

func (j *judge) condition(rule *v1alpha1.NodeReadinessRule, conditionType string, want bool) {
	c := meta.FindStatusCondition(rule.Status.Conditions, conditionType)
	if c == nil || (c.Status == metav1.ConditionTrue) != want || c.ObservedGeneration != rule.Generation {
		j.complain("rule %s at generation %d is to have condition %s %v: %+v", rule.Name, rule.Generation, conditionType,
			want, c)
	}
}

// versions identify a state of the world.
func (j *judge) versions() string {
	var all []string
	for i := range j.nodes {
		all = append(all, j.nodes[i].Name+"@"+j.nodes[i].ResourceVersion)
	}
	for _, r := range j.rules {
		all = append(all, r.Name+"@"+r.ResourceVersion)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// accused describes the nodes that were complained about.
func (j *judge) accused() string {
	var out []string
	for i := range j.nodes {
		if j.suspects[j.nodes[i].Name] {
			out = append(out, describe(&j.nodes[i]))
		}
	}
	for _, r := range j.rules {
		out = append(out, fmt.Sprintf("rule %s (%s, generation %d): %s\n    %s", r.Name, r.UID, r.Generation, inJSON(r.Spec),
			inJSON(r.Status.InForce)))
	}
	return strings.Join(out, "\n")
}
