// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Counts are the counts of a rule, for the metrics.
type Counts struct {
	Rule string
	Sums
	// Mode says whether the rule is in force, in dry-run, suspended or frozen.
	Mode ruleset.Mode
	// BootstrapOnly is the rule's enforcement mode.
	BootstrapOnly bool
	// OverBudget is the number of nodes that wait for the limit.
	OverBudget int
	// HeldSince is the start of the oldest hold, or zero if the rule holds no node.
	HeldSince time.Time
	// Blocked is the number of nodes in Closed that wait for a condition, by its type, or for a requirement, by
	// "requirement/" and its name. It is nil with conditionPolicy: anyOf.
	Blocked map[string]int
}

// requirementPrefix distinguishes a requirement from a condition type.
const requirementPrefix = "requirement/"

// Counts returns the counts of all rules.
func (f *Fleet) Counts() []Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Counts, 0, len(f.rules))
	for _, of := range f.rules {
		waiting, _ := of.limit.Waiting(limit.Claims, 0)
		out = append(out, Counts{Rule: of.rule.Name, Sums: of.sums(), Mode: of.rule.Mode, OverBudget: waiting,
			BootstrapOnly: of.rule.Spec.BootstrapOnly(), HeldSince: of.heldSince(), Blocked: of.blocked()})
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
