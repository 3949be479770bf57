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
// Rules with anyOf wait for nothing in particular.

// waits returns the rules that a rule waits for, each with the DaemonSet that it waits for, or nil if it requires that
// rule by name or by a condition that it publishes.
func (s *Set) waits(r *Rule) map[*Rule]*DaemonSet {
	out := map[*Rule]*DaemonSet{}
	if r.Spec.AnyOf() {
		return out
	}
	for _, next := range s.required(r) {
		out[next] = nil
	}
	for i := range r.Requirements {
		q := &r.Requirements[i]
		if q.DaemonSets == nil {
			continue
		}
		for _, o := range s.rules {
			if _, known := out[o]; known || o == r || o.Mode == Deleting || o.Mode == DryRun || sameTaint(o, r) ||
				!Repels(o.Taint) {
				continue
			}
			if d := q.DaemonSets.keptAway(r, o); d != nil {
				out[o] = d
			}
		}
	}
	return out
}

func sameTaint(a, b *Rule) bool {
	return a.Taint != nil && b.Taint != nil && a.Taint.Key == b.Taint.Key && a.Taint.Effect == b.Taint.Effect
}

// keptAway returns a DaemonSet that a rule waits for and another rule's taint keeps away; nil if there is none.
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

// Deadlock returns the problem of a rule that waits for a DaemonSet that waits for the rule; nil if there is none.
func (s *Set) Deadlock(rule *Rule) *Problem {
	waits := map[*Rule]map[*Rule]*DaemonSet{}
	of := func(r *Rule) map[*Rule]*DaemonSet {
		if waits[r] == nil {
			waits[r] = s.waits(r)
		}
		return waits[r]
	}
	for _, o := range s.rules { // the order makes the message the same each time
		if d := of(rule)[o]; d != nil {
			if path := pathTo(rule, o, of, s.rules); path != nil {
				return deadlockProblem(rule, d, path)
			}
		}
	}
	return nil
}

// pathTo is the way from one rule to another through what rules wait for, both ends included; nil if there is none.
func pathTo(to, from *Rule, of func(*Rule) map[*Rule]*DaemonSet, order []*Rule) []*Rule {
	seen := map[*Rule]bool{from: true}
	var find func(*Rule) []*Rule
	find = func(r *Rule) []*Rule {
		for _, next := range order {
			if _, waits := of(r)[next]; !waits || seen[next] {
				continue
			}
			if next == to {
				return []*Rule{r, next}
			}
			seen[next] = true
			if rest := find(next); rest != nil {
				return append([]*Rule{r}, rest...)
			}
		}
		return nil
	}
	return find(from)
}

func deadlockProblem(rule *Rule, d *DaemonSet, path []*Rule) *Problem {
	names := make([]string, len(path))
	for i, r := range path {
		names[i] = r.Name
	}
	field, t := "spec.requirements", path[0].Taint
	for i := range rule.Requirements {
		if q := rule.Requirements[i].DaemonSets; q != nil && slices.Contains(q.Found, d) {
			field = fmt.Sprintf("spec.requirements[%d].daemonSets", i)
			break
		}
	}
	return &Problem{Field: field, Reason: ReasonDeadlock, Message: fmt.Sprintf("DaemonSet %s does not tolerate taint %s "+
		"of rule %s, and that rule waits for this one (%s): add a toleration to the DaemonSet, or exclude it", d,
		t.ToString(), path[0].Name, strings.Join(names, " waits for "))}
}

// breakDeadlocks is the set with the rules frozen that wait for a DaemonSet that waits for them; before as for
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

// mayReach reports whether pods of the DaemonSet may run on nodes that all of the selectors select, as far as that can
// be told without a node.
func (d *DaemonSet) mayReach(selectors ...labels.Selector) bool {
	return d.reach == nil || slices.ContainsFunc(d.reach, func(reach labels.Selector) bool {
		return !slices.ContainsFunc(selectors, func(s labels.Selector) bool { return Disjoint(reach, s) })
	})
}

// operators are those of node affinity that labels have, too.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
}

// reachOf are selectors of which a node must match one, by the labels that a pod asks for.
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
				reach = reach.Add(*r) // without Gt and Lt it reaches further
			}
		}
		out = append(out, reach)
	}
	return out
}
