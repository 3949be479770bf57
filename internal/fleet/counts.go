// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
)

// Counts are the counts of a rule, for the metrics.
type Counts struct {
	Rule string
	v1alpha1.NodeCounts
	// Mode says whether the rule is in force, in dry-run, suspended or frozen.
	Mode ruleset.Mode
	// BootstrapOnly is the rule's enforcement mode.
	BootstrapOnly bool
	// Closed is the number of nodes that the rule keeps pods off: held nodes, and nodes with the rule's taint on which
	// the rule could not be evaluated.
	Closed int32
	// Overridden is the number of nodes whose override annotation replaces the verdict, OverBudget the number of nodes
	// that wait for the limit, and Guarded the number of nodes on which the eviction guard is active.
	Overridden, OverBudget, Guarded int
	// Published is the number of nodes with each status of the condition that the rule publishes. It is nil if the rule
	// publishes none.
	Published map[corev1.ConditionStatus]int
	// HeldSince is the start of the oldest hold, or zero if the rule holds no node.
	HeldSince time.Time
	// Blocked is the number of nodes in Closed that wait for a condition, by its type, or for a requirement, by
	// "requirement/" and its name. It is nil with conditionPolicy: anyOf.
	Blocked map[string]int
}

// requirementPrefix distinguishes a requirement from a condition type.
const requirementPrefix = "requirement/"

// closed reports whether the rule keeps pods off the node.
func (o *Outcome) closed() bool {
	switch o.State {
	case v1alpha1.NodeStateHeld:
		return true
	case v1alpha1.NodeStateFailed, v1alpha1.NodeStatePending:
		return o.Present
	}
	return false
}

// Counts returns the counts of all rules.
func (f *Fleet) Counts() []Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Counts, 0, len(f.rules))
	for _, of := range f.rules {
		m := Material{}
		m.countAll(of)
		waiting, _ := of.limit.Waiting(0)
		c := Counts{Rule: of.rule.Name, Mode: of.rule.Mode, OverBudget: waiting,
			BootstrapOnly: of.rule.Spec.BootstrapOnly()}
		if of.rule.Spec.Publish != nil {
			c.Published = map[corev1.ConditionStatus]int{corev1.ConditionTrue: 0, corev1.ConditionFalse: 0,
				corev1.ConditionUnknown: 0}
		}
		for i := range of.outcomes {
			o := &of.outcomes[i]
			if o.Published != "" && c.Published != nil {
				c.Published[o.Published] += o.nodes
			}
			if o.Reason == state.ReasonOverrideHold || o.Reason == state.ReasonOverrideRelease {
				c.Overridden += o.nodes
			}
			if o.matches && o.closed() {
				c.Closed += int32(o.nodes) //nolint:gosec // of nodes
			}
		}
		c.NodeCounts, c.Guarded = m.Counts, m.Guarded
		c.HeldSince, c.Blocked = of.heldSince(), of.blocked()
		out = append(out, c)
	}
	return out
}

// heldSince returns the start of the oldest hold, or zero if the rule holds no node.
func (s *ruleState) heldSince() time.Time {
	var oldest uint32
	for _, since := range s.held {
		if oldest == 0 || since < oldest {
			oldest = since
		}
	}
	if oldest == 0 {
		return time.Time{}
	}
	return time.Unix(int64(oldest), 0)
}

// blocked counts the held nodes that wait for each piece of the rule's evidence.
func (s *ruleState) blocked() map[string]int {
	if s.rule.Spec.AnyOf() {
		return nil
	}
	out := map[string]int{}
	for _, c := range s.rule.Spec.Conditions {
		out[c.Type] = 0
	}
	for _, r := range s.rule.Requirements {
		out[requirementPrefix+r.Name] = 0
	}
	for i := range s.outcomes {
		o := &s.outcomes[i]
		if o.nodes == 0 || !o.matches || !o.closed() {
			continue
		}
		for _, r := range o.Results {
			if r.CurrentStatus != r.RequiredStatus {
				out[r.Type] += o.nodes
			}
		}
		for _, r := range o.Requirements {
			if !r.Satisfied {
				out[requirementPrefix+r.Name] += o.nodes
			}
		}
	}
	return out
}
