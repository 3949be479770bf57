// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Cause says why a piece of evidence counts as it does.
type Cause = condition.Cause

// The causes.
const (
	CauseReported   = condition.CauseReported
	CauseMissing    = condition.CauseMissing
	CauseDefault    = condition.CauseDefault
	CauseStale      = condition.CauseStale
	CauseBeforeBoot = condition.CauseBeforeBoot
)

// judgement is what one piece of evidence is worth.
type judgement = condition.Judgement

// Result is one piece of evidence, spelled out.
type Result struct {
	// Type is the condition's type; empty for a requirement.
	Type string
	// Name is the requirement's name; empty for a condition.
	Name string
	// Status is the status that counts.
	Status v1alpha1.ConditionStatus
	// Required is the status that the rule requires.
	Required v1alpha1.ConditionStatus
	// Default is the status that was assumed, empty if none was.
	Default v1alpha1.ConditionStatus
	// Satisfied is whether the evidence holds.
	Satisfied bool
	// Cause says why Status is what it is.
	Cause Cause
	// Since is since when; zero if that is not known.
	Since time.Time
	// Heartbeat is when it was last reported; zero if it is not reported, or nobody knows when.
	Heartbeat time.Time
	// ChangesAt is when it turns by the passage of time alone; zero if it does not.
	ChangesAt time.Time
	// Message says it in words.
	Message string
}

// Results spells out each piece of evidence of a rule on a node, in the rule's order.
func Results(rule *ruleset.Rule, facts *Facts, now time.Time) []Result {
	out := make([]Result, 0, len(rule.Spec.Conditions)+len(rule.Requirements))
	for i := range rule.Spec.Conditions {
		c := &rule.Spec.Conditions[i]
		j := condition.Judge(c, facts.Node, facts.NotBefore, now)
		r := Result{Type: c.Type, Status: j.Status, Required: c.RequiredStatus, Satisfied: j.Satisfied, Cause: j.Cause, Since: j.Since,
			Heartbeat: j.Heartbeat, ChangesAt: j.ChangesAt}
		if j.Cause == CauseDefault {
			r.Default = c.DefaultStatus
		}
		r.Message = condition.Message(c, j)
		out = append(out, r)
	}
	for i := range rule.Requirements {
		q := &rule.Requirements[i]
		j := judgeRequirement(q, facts, now)
		out = append(out, Result{Name: q.Name, Status: j.Status, Required: v1alpha1.ConditionTrue, Satisfied: j.Satisfied,
			Cause: j.Cause, Since: j.Since, ChangesAt: j.ChangesAt, Message: describe(rule, q, facts, j.Satisfied, now)})
	}
	return out
}

// Blocking is, in words, what keeps a rule from holding; empty if it holds.
func Blocking(rule *ruleset.Rule, results []Result) string {
	out := ""
	for _, r := range results {
		if r.Satisfied {
			if rule.Spec.AnyOf() {
				return ""
			}
			continue
		}
		if out != "" {
			out += "; "
		}
		out += r.Message
	}
	return out
}
