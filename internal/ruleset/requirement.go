// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset/expression"
)

// Requirement is one of a rule's requirements, compiled. Exactly one of its kinds is set.
type Requirement struct {
	Name          string
	Pods          *Pods
	CSIDriver     *v1alpha1.CSIDriverRequirement
	Resource      *v1alpha1.ResourceRequirement
	Devices       *v1alpha1.DevicesRequirement
	Expression    *expression.Program
	RuleSatisfied string
}

// Pods is a requirement of pods, compiled.
type Pods struct {
	v1alpha1.PodsRequirement
	// Labels is the compiled selector.
	Labels labels.Selector
}

// Pods are the requirements of pods that a rule has.
func (r *Rule) Pods() []*Pods {
	var out []*Pods
	for i := range r.Requirements {
		if p := r.Requirements[i].Pods; p != nil {
			out = append(out, p)
		}
	}
	return out
}

// compileRequirements compiles what can be, and says what cannot.
func compileRequirements(spec *v1alpha1.NodeReadinessRuleSpec) ([]Requirement, []Problem) {
	var v validator
	var out []Requirement
	names := map[string]bool{}
	for i := range spec.Requirements {
		r := &spec.Requirements[i]
		field := fmt.Sprintf("spec.requirements[%d]", i)
		if r.Name == "" || names[r.Name] {
			v.invalid(field+".name", "must be given, once for each requirement")
		}
		names[r.Name] = true
		out = append(out, v.requirement(field, r))
	}
	return out, v.problems
}

func (v *validator) requirement(field string, r *v1alpha1.Requirement) Requirement {
	out := Requirement{Name: r.Name, CSIDriver: r.CSIDriver, Resource: r.Resource, Devices: r.Devices}
	kinds := 0
	for _, given := range []bool{r.Pods != nil, r.CSIDriver != nil, r.Resource != nil, r.Devices != nil, r.CEL != nil,
		r.RuleSatisfied != nil} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		v.problems = append(v.problems, Problem{Field: field, Reason: ReasonUnsupported,
			Message: "names no kind of evidence that this version knows"})
	case kinds > 1:
		v.invalid(field, "give exactly one of pods, csiDriver, resource, devices, cel and ruleSatisfied")
	case r.Pods != nil:
		out.Pods = v.pods(field+".pods", r.Pods)
	case r.CEL != nil:
		program, err := expression.Compile(r.CEL.Expression)
		if err != nil {
			v.invalid(field+".cel.expression", "%v", err)
		}
		out.Expression = program
	case r.RuleSatisfied != nil:
		if r.RuleSatisfied.Name == "" {
			v.invalid(field+".ruleSatisfied.name", "must name a rule")
		}
		out.RuleSatisfied = r.RuleSatisfied.Name
	}
	return out
}

func (v *validator) pods(field string, p *v1alpha1.PodsRequirement) *Pods {
	selector, err := p.Selector.AsSelector()
	if err != nil {
		v.invalid(field+".selector", "%v", err)
		selector = labels.Nothing()
	}
	if p.Namespace == "" {
		v.invalid(field+".namespace", "must be given")
	}
	switch p.ReadyWhen {
	case "", v1alpha1.PodReadyPolicyPodReady:
	case v1alpha1.PodReadyPolicyAnnotation, v1alpha1.PodReadyPolicyPodReadyOrAnnotation:
		if p.ReadyAnnotation == nil {
			v.invalid(field+".readyAnnotation", "is required with readyWhen: %s", p.ReadyWhen)
		}
	default:
		v.unknown(field+".readyWhen", string(p.ReadyWhen))
	}
	return &Pods{PodsRequirement: *p, Labels: selector}
}
