// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// ReasonDeadlock means that a rule waits for a DaemonSet that waits for the rule.
const ReasonDeadlock = "Deadlock"

// A rule waits for another one if it requires that rule, or a DaemonSet that the other rule's taint keeps away. Two
// rules that wait for each other keep new nodes forever:
//
//	rule A ── requires ──► DaemonSet D ── does not tolerate the taint of ──► rule B
//	   ▲                                                                        │
//	   └──────────────── waits for, through any number of steps ────────────────┘
//
// A rule with anyOf waits for no certain rule.

// wait is a rule that another one waits for.
type wait struct {
	*Rule
	// on is the DaemonSet that the rule's taint keeps away. It is nil if the rule is required by name or by its condition.
	on *DaemonSet
}

// waits returns the rules that a rule waits for.
func (s *Set) waits(r *Rule) []wait {
	if r.Spec.AnyOf() {
		return nil
	}
	var out []wait
	for _, next := range s.required(r) {
		out = append(out, wait{Rule: next})
	}
	for _, q := range r.DaemonSets() {
		for _, o := range s.rules {
			if o == r || o.Mode == Deleting || o.Mode == DryRun || sameTaint(o, r) || !Repels(o.Taint) {
				continue
			}
			if d := q.keptAway(r, o); d != nil {
				out = append(out, wait{o, d})
			}
		}
	}
	return out
}

func sameTaint(a, b *Rule) bool {
	return a.Taint != nil && b.Taint != nil && a.Taint.MatchTaint(b.Taint)
}

// keptAway returns a DaemonSet that a rule waits for and another rule's taint keeps away, or nil.
func (q *DaemonSets) keptAway(rule, by *Rule) *DaemonSet {
	if Disjoint(rule.Selector, by.Selector) {
		return nil
	}
	for _, d := range q.Found {
		if !d.Tolerates(by.Taint) && !q.ignores(d, rule.Taint) && d.mayReach(rule.Selector, by.Selector) {
			return d
		}
	}
	return nil
}

// Deadlock returns the problem of a rule that waits for a DaemonSet that waits for the rule, or nil.
func (s *Set) Deadlock(rule *Rule) *Problem {
	next := map[*Rule][]*Rule{}
	of := func(r *Rule) []*Rule {
		if _, known := next[r]; !known {
			next[r] = nil
			for _, w := range s.waits(r) {
				next[r] = append(next[r], w.Rule)
			}
		}
		return next[r]
	}
	for _, w := range s.waits(rule) {
		if w.on != nil {
			if way := path(w.Rule, rule, of); way != nil {
				return deadlockProblem(rule, w.on, way)
			}
		}
	}
	return nil
}

func deadlockProblem(rule *Rule, d *DaemonSet, way []*Rule) *Problem {
	field, t := "spec.requirements", way[0].Taint
	for i := range rule.Requirements {
		if q := rule.Requirements[i].DaemonSets; q != nil && slices.Contains(q.Found, d) {
			field = fmt.Sprintf("spec.requirements[%d].daemonSets", i)
			break
		}
	}
	return &Problem{Field: field, Reason: ReasonDeadlock, Message: fmt.Sprintf("DaemonSet %s does not tolerate taint %s "+
		"of rule %s, and that rule waits for this one (%s): add a toleration to the DaemonSet, or exclude it", d,
		t.ToString(), way[0].Name, strings.Join(namesOf(way), " waits for "))}
}

// breakDeadlocks returns the set with the rules frozen that wait for a DaemonSet that waits for them. before is as for
// FreezeInvalid.
func (s *Set) breakDeadlocks(before *Set) *Set {
	rules := slices.Clone(s.rules)
	for i, r := range rules {
		if r.Mode == Deleting || r.Mode == Frozen || len(r.DaemonSets()) == 0 {
			continue
		}
		if p := s.Deadlock(r); p != nil {
			rules[i] = r.FreezeLike(before.Rule(r.UID), *p)
		}
	}
	return NewSet(rules...)
}

// mayReach reports whether pods of the DaemonSet may run on nodes that all selectors select.
func (d *DaemonSet) mayReach(selectors ...labels.Selector) bool {
	return d.reach == nil || slices.ContainsFunc(d.reach, func(reach labels.Selector) bool {
		return !slices.ContainsFunc(selectors, func(s labels.Selector) bool { return Disjoint(reach, s) })
	})
}

// operators maps operators of node affinity to those of label selectors.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
}

// reachOf returns selectors of which a node must match one, by the labels that a pod requires.
func reachOf(pod *corev1.PodSpec) []labels.Selector {
	chosen := labels.SelectorFromSet(pod.NodeSelector)
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil ||
		pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return []labels.Selector{chosen}
	}
	var out []labels.Selector
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		reach := chosen.DeepCopySelector()
		for _, e := range term.MatchExpressions {
			if r, err := labels.NewRequirement(e.Key, operators[e.Operator], e.Values); err == nil {
				reach = reach.Add(*r) // the operators Gt and Lt are left out
			}
		}
		out = append(out, reach)
	}
	return out
}
