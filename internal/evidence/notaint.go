// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
)

// noTaint is a requirement that the node does not have a taint.
type noTaint v1alpha1.NoTaintRequirement

func compileNoTaint(p *Problems, field string, r *v1alpha1.Requirement) Kind {
	q := r.NoTaint
	if q == nil {
		return nil
	}
	if q.Key == "" {
		p.Invalid(field+".noTaint.key", "must be the key of a taint")
	}
	if q.Effect == "" {
		p.Invalid(field+".noTaint.effect", "must be the effect of a taint")
	}
	OneOf(p, field+".noTaint.effect", corev1.TaintEffect(q.Effect), corev1.TaintEffectNoSchedule,
		corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	return (*noTaint)(q)
}

// Origin implements Kind.
func (*noTaint) Origin() Origin { return OnNode }

func (q *noTaint) is(t *corev1.Taint) bool {
	return t.Key == q.Key && t.Effect == corev1.TaintEffect(q.Effect)
}

// judge evaluates the node as it is. After a boot, no time tells whether another component has looked at the node, so
// that an absent taint counts only when the boot is confirmed.
func (q *noTaint) judge(f *Facts, now time.Time) (condition.Judgement, finding) {
	has := slices.ContainsFunc(f.Node.Spec.Taints, func(t corev1.Taint) bool { return q.is(&t) })
	return f.undated(!has, false, now), (*noTaintFound)(q)
}

// noTaintFound describes a taint.
type noTaintFound noTaint

func (f *noTaintFound) message(r *Result) string {
	if r.Satisfied {
		return fmt.Sprintf("taint %s:%s is absent", f.Key, f.Effect)
	}
	return fmt.Sprintf("taint %s:%s is on the node", f.Key, f.Effect)
}

// WaitsForTaints reports whether the requirement is that a node does not have some taint.
func (r *Requirement) WaitsForTaints() bool {
	_, ok := r.Kind.(*noTaint)
	return ok
}

// WaitsFor reports whether the requirement is that a node does not have this taint.
func (r *Requirement) WaitsFor(t *corev1.Taint) bool {
	q, ok := r.Kind.(*noTaint)
	return ok && t != nil && q.is(t)
}
