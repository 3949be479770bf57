// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/expression"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Evidence is what requirements are judged by, of one node and for all rules together. It is not safe for concurrent use.
type Evidence struct {
	// Rules are how the rules that were judged before stand on the node, by name.
	Rules map[string]Satisfaction

	value expression.Value // of the node, made when the first expression asks for it
}

// Satisfaction is how a rule stands on a node, for rules that require it.
type Satisfaction struct {
	// Matches is whether the rule is about the node.
	Matches bool
	// Holds is whether the node is released by it, or never was held.
	Holds bool
}

// judgeRequirement looks at one requirement.
func judgeRequirement(r *ruleset.Requirement, facts *Facts) judgement {
	switch {
	case r.Resource != nil:
		return judgeResource(r.Resource, facts.Node)
	case r.Expression != nil:
		ok, err := facts.evaluate(r.Expression)
		return requirement(ok && err == nil, false)
	case r.RuleSatisfied != "":
		other, known := facts.rule(r.RuleSatisfied)
		return requirement(other.Holds, !known || !other.Matches)
	}
	return requirement(false, true)
}

// requirement is the judgement of evidence that bears no time.
func requirement(satisfied, missing bool) judgement {
	j := judgement{satisfied: satisfied, status: v1alpha1.ConditionFalse, cause: CauseReported}
	if satisfied {
		j.status = v1alpha1.ConditionTrue
	}
	if missing && !satisfied {
		j.cause = CauseMissing
	}
	return j
}

func judgeResource(r *v1alpha1.ResourceRequirement, node *corev1.Node) judgement {
	have, ok := node.Status.Allocatable[corev1.ResourceName(r.Name)]
	return requirement(ok && have.Cmp(r.Minimum) >= 0, !ok)
}

func (f *Facts) evaluate(p *expression.Program) (bool, error) {
	if f.Evidence == nil {
		return p.Eval(expression.ValueOf(f.Node))
	}
	if f.Evidence.value == nil {
		f.Evidence.value = expression.ValueOf(f.Node)
	}
	return p.Eval(f.Evidence.value)
}

func (f *Facts) rule(name string) (Satisfaction, bool) {
	if f.Evidence == nil {
		return Satisfaction{}, false
	}
	s, ok := f.Evidence.Rules[name]
	return s, ok
}

// describe is a requirement, in words.
func describe(r *ruleset.Requirement, facts *Facts, satisfied bool) string {
	switch {
	case r.Resource != nil:
		return describeResource(r, facts.Node, satisfied)
	case r.Expression != nil:
		if satisfied {
			return fmt.Sprintf("expression %s is true", r.Name)
		}
		if _, err := facts.evaluate(r.Expression); err != nil {
			return fmt.Sprintf("expression %s %v", r.Name, err)
		}
		return fmt.Sprintf("expression %s is false", r.Name)
	case r.RuleSatisfied != "":
		other, known := facts.rule(r.RuleSatisfied)
		switch {
		case !known:
			return fmt.Sprintf("rule %s does not exist", r.RuleSatisfied)
		case !other.Matches:
			return fmt.Sprintf("rule %s does not select this node", r.RuleSatisfied)
		case !satisfied:
			return fmt.Sprintf("rule %s does not hold on this node", r.RuleSatisfied)
		}
		return fmt.Sprintf("rule %s holds on this node", r.RuleSatisfied)
	}
	return fmt.Sprintf("requirement %s is of a kind that this version does not know", r.Name)
}

func describeResource(r *ruleset.Requirement, node *corev1.Node, satisfied bool) string {
	have, ok := node.Status.Allocatable[corev1.ResourceName(r.Resource.Name)]
	if !ok {
		return fmt.Sprintf("resource %s is not allocatable, must be at least %s", r.Resource.Name, r.Resource.Minimum.String())
	}
	must := ""
	if !satisfied {
		must = ", must be at least " + r.Resource.Minimum.String()
	}
	return fmt.Sprintf("resource %s: %s is allocatable%s", r.Resource.Name, have.String(), must)
}
