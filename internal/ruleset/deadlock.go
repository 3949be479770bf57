// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/internal/evidence"
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
	on *evidence.DaemonSet
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
			if o == r || o.Mode == Deleting || o.Mode == DryRun || o.Withdrawn() || sameTaint(o, r) ||
				!evidence.Repels(o.Taint) {
				continue
			}
			if d := q.KeptAway(r.Taint, o.Taint, r.Selector, o.Selector); d != nil {
				out = append(out, wait{o, d})
			}
		}
	}
	return out
}

func sameTaint(a, b *Rule) bool {
	return a.Taint != nil && b.Taint != nil && a.Taint.MatchTaint(b.Taint)
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

func deadlockProblem(rule *Rule, d *evidence.DaemonSet, way []*Rule) *Problem {
	field, t := "spec.requirements", way[0].Taint
	for i := range rule.Requirements {
		if q, ok := rule.Requirements[i].Kind.(*evidence.DaemonSets); ok && slices.Contains(q.Found, d) {
			field = fmt.Sprintf("spec.requirements[%d].daemonSets", i)
			break
		}
	}
	return &Problem{Field: field, Reason: ReasonDeadlock, Message: fmt.Sprintf("DaemonSet %s does not tolerate taint %s "+
		"of rule %s, and that rule waits for this one (%s): add a toleration to the DaemonSet, or exclude it", d,
		t.ToString(), way[0].Name, strings.Join(namesOf(way), " waits for "))}
}

// breakDeadlocks returns the set with the rules frozen that wait for a DaemonSet that waits for them. before is as for
// freezeInvalid.
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
