// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/limit"
)

// Pods returns the requirements of pods of a rule.
func (r *Rule) Pods() []*evidence.Pods { return ofKind[*evidence.Pods](r) }

// DaemonSets returns the requirements of DaemonSets of a rule.
func (r *Rule) DaemonSets() []*evidence.DaemonSets { return ofKind[*evidence.DaemonSets](r) }

// ofKind returns the requirements of a kind of a rule.
func ofKind[K evidence.Kind](r *Rule) (out []K) {
	for i := range r.Requirements {
		if k, ok := r.Requirements[i].Kind.(K); ok {
			out = append(out, k)
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

// requirements validates and compiles the requirements of a rule.
func (v *validator) requirements(spec *v1alpha1.NodeReadinessRuleSpec) []evidence.Requirement {
	var out []evidence.Requirement
	names := map[string]bool{}
	for i := range spec.Requirements {
		r := &spec.Requirements[i]
		field := fmt.Sprintf("spec.requirements[%d]", i)
		if r.Name == "" || names[r.Name] {
			v.Invalid(field+".name", "is required, and must be different for each requirement")
		}
		names[r.Name] = true
		out = append(out, evidence.Compile(&v.Problems, field, r))
		if q := r.NoTaint; q != nil && spec.Taint != nil && q.Key == spec.Taint.Key && q.Effect == spec.Taint.Effect {
			v.Invalid(field+".noTaint", "is the rule's own taint, which the rule would never remove: name another taint")
		}
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
	if !limit.Of(spec).Total() {
		v.Invalid("spec.maxUnavailable", "is required with daemonSets, or an entry of limits without per, unless "+
			"enforcementMode is bootstrap-only")
	}
	if spec.Taint != nil && corev1.TaintEffect(spec.Taint.Effect) == corev1.TaintEffectNoExecute {
		v.Invalid("spec.taint.effect", "must not be NoExecute with daemonSets unless enforcementMode is bootstrap-only")
	}
}
