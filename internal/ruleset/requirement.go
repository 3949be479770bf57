// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset/expression"
)

// Requirement is a compiled requirement. Exactly one of its kinds is set, or none if the requirement is invalid.
type Requirement struct {
	Name          string
	Pods          *Pods
	DaemonSets    *DaemonSets
	CSIDriver     *v1alpha1.CSIDriverRequirement
	Resource      *v1alpha1.ResourceRequirement
	Devices       *v1alpha1.DevicesRequirement
	Expression    *expression.Program
	RuleSatisfied string
}

// Pods is a compiled requirement of pods.
type Pods struct {
	v1alpha1.PodsRequirement
	// Labels is the compiled selector.
	Labels labels.Selector
}

// Pods returns the requirements of pods of a rule.
func (r *Rule) Pods() []*Pods {
	var out []*Pods
	for i := range r.Requirements {
		if p := r.Requirements[i].Pods; p != nil {
			out = append(out, p)
		}
	}
	return out
}

// Namespaces returns the namespaces of the pods that a rule requires.
func (r *Rule) Namespaces() sets.Set[string] {
	out := sets.New[string]()
	for _, p := range r.Pods() {
		out.Insert(p.Namespace)
	}
	for _, q := range r.DaemonSets() {
		for _, namespace := range q.Namespaces {
			out.Insert(string(namespace))
		}
	}
	return out
}

// maxNamespaces is the most namespaces of a requirement of DaemonSets. Each needs two watches.
const maxNamespaces = 16

// requirements validates and compiles the requirements of a rule.
func (v *validator) requirements(spec *v1alpha1.NodeReadinessRuleSpec) []Requirement {
	var out []Requirement
	names := map[string]bool{}
	for i := range spec.Requirements {
		r := &spec.Requirements[i]
		field := fmt.Sprintf("spec.requirements[%d]", i)
		if r.Name == "" || names[r.Name] {
			v.invalid(field+".name", "is required, and must be different for each requirement")
		}
		names[r.Name] = true
		problems := len(v.problems)
		compiled := v.requirement(field, r)
		if len(v.problems) > problems { // it is evaluated even though the rule is frozen, and must not be watched
			compiled = Requirement{Name: r.Name}
		}
		out = append(out, compiled)
	}
	v.limits(spec)
	return out
}

// limits validates the limit and the effect of a rule with a requirement of DaemonSets. An update of a DaemonSet must
// not take the whole fleet out of service.
func (v *validator) limits(spec *v1alpha1.NodeReadinessRuleSpec) {
	if spec.BootstrapOnly() || !slices.ContainsFunc(spec.Requirements, func(r v1alpha1.Requirement) bool {
		return r.DaemonSets != nil
	}) {
		return
	}
	if spec.MaxUnavailable == nil {
		v.invalid("spec.maxUnavailable", "is required with daemonSets unless enforcementMode is bootstrap-only")
	}
	if spec.Taint != nil && corev1.TaintEffect(spec.Taint.Effect) == corev1.TaintEffectNoExecute {
		v.invalid("spec.taint.effect", "must not be NoExecute with daemonSets unless enforcementMode is bootstrap-only")
	}
}

func (v *validator) requirement(field string, r *v1alpha1.Requirement) Requirement {
	out := Requirement{Name: r.Name, CSIDriver: r.CSIDriver, Resource: r.Resource, Devices: r.Devices}
	kinds := count(r.Pods != nil, r.DaemonSets != nil, r.CSIDriver != nil, r.Resource != nil, r.Devices != nil,
		r.CEL != nil, r.RuleSatisfied != nil)
	switch {
	case kinds == 0:
		v.unsupported(field, "has no kind of evidence that this version supports")
	case kinds > 1:
		v.invalid(field, "give exactly one of pods, daemonSets, csiDriver, resource, devices, cel and ruleSatisfied")
	case r.Pods != nil:
		out.Pods = v.pods(field+".pods", r.Pods)
	case r.DaemonSets != nil:
		out.DaemonSets = v.daemonSets(field+".daemonSets", r.DaemonSets)
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
	switch {
	case err != nil:
		v.invalid(field+".selector", "%v", err)
	case selector.Empty():
		v.invalid(field+".selector", mustSelect)
	}
	if p.Namespace == "" {
		v.invalid(field+".namespace", "is required")
	}
	if p.MinReady != nil && *p.MinReady < 1 {
		v.invalid(field+".minReady", "must be at least 1")
	}
	oneOf(v, field+".readyWhen", p.ReadyWhen, v1alpha1.PodReadyPolicyPodReady, v1alpha1.PodReadyPolicyAnnotation,
		v1alpha1.PodReadyPolicyPodReadyOrAnnotation)
	if p.ReadyAnnotation == nil && (p.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation ||
		p.ReadyWhen == v1alpha1.PodReadyPolicyPodReadyOrAnnotation) {
		v.invalid(field+".readyAnnotation", "is required with readyWhen: %s", p.ReadyWhen)
	}
	return &Pods{PodsRequirement: *p, Labels: selector}
}

func (v *validator) daemonSets(field string, q *v1alpha1.DaemonSetsRequirement) *DaemonSets {
	out := &DaemonSets{DaemonSetsRequirement: *q, Labels: labels.Everything()}
	if q.Selector != nil {
		selector, err := q.Selector.AsSelector()
		if err != nil {
			v.invalid(field+".selector", "%v", err)
		}
		out.Labels = selector
	}
	if n := len(q.Namespaces); n < 1 || n > maxNamespaces {
		v.invalid(field+".namespaces", "must have 1 to %d entries", maxNamespaces)
	}
	for i, namespace := range q.Namespaces {
		if len(validation.IsDNS1123Label(string(namespace))) > 0 {
			v.invalid(fmt.Sprintf("%s.namespaces[%d]", field, i), "must be the name of a namespace, without wildcards")
		}
	}
	oneOf(v, field+".untolerated", q.Untolerated, v1alpha1.UntoleratedIgnore, v1alpha1.UntoleratedHold)
	return out
}
