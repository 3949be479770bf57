// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
)

// ruleSatisfied is a requirement of another rule.
type ruleSatisfied v1alpha1.RuleSatisfiedRequirement

func compileRuleSatisfied(p *Problems, field string, r *v1alpha1.Requirement) Kind {
	if r.RuleSatisfied == nil {
		return nil
	}
	if r.RuleSatisfied.Name == "" {
		p.Invalid(field+".ruleSatisfied.name", "must name a rule")
	}
	return (*ruleSatisfied)(r.RuleSatisfied)
}

// Origin implements Kind.
func (*ruleSatisfied) Origin() Origin { return Unread }

// Satisfaction is the state of a rule on a node, for rules that require it.
type Satisfaction struct {
	// Matches reports whether the rule selects the node.
	Matches bool
	// Satisfied reports whether the node is ready under the rule.
	Satisfied bool
	// Refuted reports whether reported evidence shows that the rule is not satisfied. It is set only if a rule publishes a
	// condition.
	Refuted bool
	// Unknown says that evidence of the rule could not be read, or is not judged yet, so that nothing follows from
	// Satisfied. Booting says that the rule, or one that it requires, waits until the boot of the node is confirmed.
	Unknown, Booting bool
	// SinceBoot says that the rule has re-armed the node at its last boot as well, and does not wait for evidence from
	// after it any more. So Satisfied is not from before the boot.
	SinceBoot bool
}

func (q *ruleSatisfied) judge(f *Facts, now time.Time) (condition.Judgement, finding) {
	other, known := f.Gathered.Rules[q.Name]
	found := &ruleFound{q.Name, other, known}
	switch {
	case other.Unknown:
		j := unread()
		if other.Booting {
			j.Cause = condition.CauseBooting
		}
		return j, found
	case other.SinceBoot:
		return requirement(other.Satisfied, !other.Matches), found
	}
	return f.undated(other.Satisfied, !other.Matches, now), found
}

// ruleFound is the state of the other rule, if it exists.
type ruleFound struct {
	name  string
	other Satisfaction
	known bool
}

func (f *ruleFound) refutes() bool { return f.other.Refuted }

func (f *ruleFound) message(r *Result) string {
	switch {
	case !f.known:
		return fmt.Sprintf("rule %s does not exist", f.name)
	case !f.other.Matches:
		return fmt.Sprintf("rule %s does not select this node", f.name)
	case f.other.Booting:
		return fmt.Sprintf("rule %s waits until the boot of this node is confirmed", f.name)
	case f.other.Unknown:
		return fmt.Sprintf("it is not known whether rule %s is satisfied on this node", f.name)
	case !r.Satisfied:
		return fmt.Sprintf("rule %s is not satisfied on this node", f.name)
	}
	return fmt.Sprintf("rule %s is satisfied on this node", f.name)
}
