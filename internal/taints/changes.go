// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package taints

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
)

// Operation is what a plan does for a rule: one of these, or a Change of the decision's Hold.
type Operation string

// The operations.
const (
	// Added: the rule's taint is added to the node.
	Added Operation = "added"
	// Removed: the rule's taint is removed.
	Removed Operation = "removed"
	// Adopted: another client added the taint, and the rule owns it from now on.
	Adopted Operation = "adopted"
	// Completed: the node has completed a bootstrap-only rule.
	Completed Operation = "completed"
	// TimedOut: the rule's timeout has passed.
	TimedOut Operation = "timedOut"
	// Rearmed: the node has rebooted and must become ready again.
	Rearmed Operation = "rearmed"
)

// Change is one operation of a plan. It takes effect when the API server accepts the patch.
type Change struct {
	Operation Operation
	// Rule is the rule, or nil for a taint of a deleted rule.
	Rule *ruleset.Rule
	// Taint is the taint. It is empty for Completed.
	Taint corev1.Taint
	// Decision is the rule's decision, or nil if Rule is nil.
	Decision *state.Decision
}

// changes lists the operations of the patch, rule by rule.
func (p *planner) changes(decisions []state.Decision, taints []corev1.Taint) []Change {
	var out []Change
	for i := range decisions {
		d := &decisions[i]
		if d.Frozen {
			continue
		}
		add := func(op Operation, t corev1.Taint) {
			if p.lost[d.Rule.UID] && op != Added && op != Removed {
				return // it would be decided, and reported, again at each pass
			}
			out = append(out, Change{Operation: op, Rule: d.Rule, Taint: t, Decision: d})
		}
		if d.Rearmed {
			add(Rearmed, ruleTaint(d))
		}
		if d.TimedOut {
			add(TimedOut, ruleTaint(d))
		}
		if d.Hold.Change != "" {
			add(Operation(d.Hold.Change), corev1.Taint{})
		}
		p.taintChanges(d, taints, add)
		if d.Completed && !d.Was.Completed {
			add(Completed, corev1.Taint{})
		}
	}
	for _, t := range p.swept {
		reported := slices.ContainsFunc(out, func(c Change) bool {
			return c.Operation == Removed && c.Taint.MatchTaint(&t)
		})
		if has(p.node.Spec.Taints, &t) && !has(taints, &t) && !reported {
			out = append(out, Change{Operation: Removed, Taint: t})
		}
	}
	return out
}

func ruleTaint(d *state.Decision) corev1.Taint {
	if d.Rule.Taint == nil {
		return corev1.Taint{}
	}
	return *d.Rule.Taint
}

func (p *planner) taintChanges(d *state.Decision, taints []corev1.Taint, add func(Operation, corev1.Taint)) {
	before := p.node.Spec.Taints
	was, claimed := d.Was.Record.Claim()
	if !claimed && d.Was.Present && !d.Was.Shared && d.Manages() {
		was = *d.Rule.Taint // another client's until now
	}
	if has(before, &was) && !has(taints, &was) {
		add(Removed, was)
	}
	if !d.Claim {
		return
	}
	now, claims := d.Record.Claim()
	if !claims {
		return
	}
	switch {
	case !has(before, &now):
		if has(taints, &now) {
			add(Added, now)
		}
	case !claimed && !slices.ContainsFunc(p.before, func(c *claim) bool { return c.taint.MatchTaint(&now) }):
		add(Adopted, now)
	}
}
