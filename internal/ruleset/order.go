// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/internal/evidence"
)

const (
	// ReasonCycle means that rules require each other.
	ReasonCycle = "Cycle"
	// ReasonSuspended means that a rule is suspended because it requires a suspended one.
	ReasonSuspended = "Suspended"
)

// Ordered returns the rules, each after the rules that it requires, and otherwise the oldest first. The slice must not
// be changed.
func (s *Set) Ordered() []*Rule { return s.ordered }

// Chained reports whether a rule requires another one.
func (s *Set) Chained() bool { return s.chained }

// Inspects reports whether a rule reads more of a Node object than labels and conditions.
func (s *Set) Inspects() bool { return s.inspects }

// Gathers reports whether a rule needs evidence that is not on the Node object.
func (s *Set) Gathers() bool { return s.gathers }

func (s *Set) order() {
	const visiting, visited = 1, 2
	state := make(map[*Rule]int, len(s.rules))
	s.ordered = make([]*Rule, 0, len(s.rules))
	var visit func(*Rule)
	visit = func(r *Rule) {
		if r == nil || state[r] != 0 {
			return
		}
		state[r] = visiting
		s.daemonSets = s.daemonSets || len(r.DaemonSets()) > 0
		for i := range r.Requirements {
			q := &r.Requirements[i]
			s.gathers = s.gathers || q.Origin() == evidence.Elsewhere
			s.inspects = s.inspects || q.Origin() == evidence.OnNode
			s.awaits = s.awaits || q.WaitsForTaints()
			if other := q.Rule(); other != "" {
				s.chained = true
				visit(s.byName[other])
			}
		}
		state[r] = visited
		s.ordered = append(s.ordered, r)
	}
	for _, r := range s.rules {
		visit(r)
	}
}

// path returns the rules on a way from one rule to another, with both ends, or nil if there is none. next returns the
// rules that are one step away.
func path(from, to *Rule, next func(*Rule) []*Rule) []*Rule {
	seen := map[*Rule]bool{}
	var find func(*Rule) []*Rule
	find = func(r *Rule) []*Rule {
		for _, n := range next(r) {
			if n == to {
				return []*Rule{r, n}
			}
			if seen[n] {
				continue
			}
			seen[n] = true
			if rest := find(n); rest != nil {
				return append([]*Rule{r}, rest...)
			}
		}
		return nil
	}
	return find(from)
}

func namesOf(rules []*Rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r.Name)
	}
	return out
}

// required returns the rules that a rule requires: by name, by a condition that they publish, or by the absence of
// their taint.
func (s *Set) required(r *Rule) []*Rule {
	var out []*Rule
	for i := range r.Requirements {
		if next := s.byName[r.Requirements[i].Rule()]; next != nil {
			out = append(out, next)
		}
		if r.Requirements[i].WaitsForTaints() {
			for _, other := range s.rules {
				if r.Requirements[i].WaitsFor(other.Taint) && other.actsFor(r) {
					out = append(out, other)
				}
			}
		}
	}
	for i := range r.Spec.Conditions {
		out = append(out, s.publishersFor(r, r.Spec.Conditions[i].Type)...)
	}
	return out
}

// publishersFor returns the rules that may publish a condition on a node that a rule selects, the oldest first.
func (s *Set) publishersFor(r *Rule, conditionType string) (out []*Rule) {
	for _, p := range s.publishers[conditionType] {
		if p.actsFor(r) {
			out = append(out, p)
		}
	}
	return out
}

// actsFor reports whether the rule may add its taint, or publish its condition, on a node that another rule selects. A
// rule in dry-run does neither, but its status says if it would wait for itself.
func (r *Rule) actsFor(other *Rule) bool {
	return r == other || r.Mode != Deleting && !r.Spec.DryRun && !evidence.Disjoint(r.Selector, other.Selector)
}

// freezeInvalid returns the set with the rules frozen that are invalid because of other rules; see Invalid. before is
// the former set. A rule that was frozen by the same problem is the same as in before.
func (s *Set) freezeInvalid(before *Set) *Set {
	if !s.chained && !s.awaits && len(s.publishers) == 0 {
		return s
	}
	rules := slices.Clone(s.rules)
	broken := false
	for i, r := range rules {
		if r.Mode == Deleting { // its taints must be removed
			continue
		}
		problems := s.Invalid(r)
		if len(problems) > 0 && !slices.Contains(r.Problems, problems[0]) { // it is not resolved already
			rules[i] = r.FreezeLike(before.Rule(r.UID), problems[0])
			broken = true
		}
	}
	if !broken {
		return s
	}
	return NewSet(rules...)
}

// Invalid returns the problems of a rule with other rules: they require each other, or the rule has maxAgeSeconds for a
// condition that a rule publishes. The operator writes such a condition only when it changes.
func (s *Set) Invalid(rule *Rule) []Problem {
	var out []Problem
	if cycle := path(rule, rule, s.required); cycle != nil {
		out = append(out, Problem{Field: "spec.requirements", Reason: ReasonCycle,
			Message: "rules require each other in a cycle: " + strings.Join(namesOf(cycle), " requires ")})
	}
	for i := range rule.Spec.Conditions {
		c := &rule.Spec.Conditions[i]
		if c.MaxAgeSeconds == nil {
			continue
		}
		if by := s.publishersFor(rule, c.Type); len(by) > 0 {
			out = append(out, Problem{Field: fmt.Sprintf("spec.conditions[%d].maxAgeSeconds", i), Reason: evidence.ReasonInvalid,
				Message: fmt.Sprintf("condition %s is published by rule %s, which writes it only when it changes: remove "+
					"maxAgeSeconds",
					c.Type, by[0].Name)})
		}
	}
	return out
}

// freezeDependents returns the set with the rules frozen that require a frozen or suspended rule, directly or through
// other rules. Whether that rule is satisfied is unknown, which is not the same as unsatisfied. before is as for
// freezeInvalid.
func (s *Set) freezeDependents(before *Set) *Set {
	if !s.chained {
		return s
	}
	rules := make([]*Rule, 0, len(s.rules))
	causes := map[string]Problem{} // the problems that freeze rules that require a rule, by that rule's name
	dependents := false
	for _, r := range s.ordered {
		p, field := r.waitsFor(causes)
		switch {
		case r.Mode != Deleting && !r.Inert() && field != "":
			causes[r.Name] = p
			p.Field = field
			r = r.FreezeLike(before.Rule(r.UID), p)
			dependents = true
		case r.Mode == Suspended:
			causes[r.Name] = Problem{Reason: ReasonSuspended,
				Message: fmt.Sprintf("it requires rule %s, which is suspended", r.Name)}
		case r.Mode == Frozen && len(r.Problems) > 0:
			p := r.Problems[0]
			cause := Problem{Reason: p.Reason, Message: fmt.Sprintf("it requires rule %s, which is frozen: %s", r.Name, p)}
			if p.Reason == ReasonForeignRule { // the taint of the rule that requires it is not the other controller's
				cause.Reason = ReasonUnavailable
			}
			causes[r.Name] = cause
		}
		rules = append(rules, r)
	}
	if !dependents {
		return s
	}
	return NewSet(rules...)
}

// waitsFor returns the problem of the first frozen rule that a rule requires, and the field that requires it.
func (r *Rule) waitsFor(causes map[string]Problem) (p Problem, field string) {
	for i := range r.Requirements {
		if p, frozen := causes[r.Requirements[i].Rule()]; frozen {
			return p, fmt.Sprintf("spec.requirements[%d].ruleSatisfied", i)
		}
	}
	return Problem{}, ""
}
