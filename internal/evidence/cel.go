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
	"github.com/nodegate/nodegate/internal/evidence/expression"
)

// cel is a requirement of an expression that must be true.
type cel struct{ *expression.Program }

func compileExpression(p *Problems, field string, r *v1alpha1.Requirement) Kind {
	if r.CEL == nil {
		return nil
	}
	program, err := expression.Compile(r.CEL.Expression)
	if err != nil {
		p.Invalid(field+".cel.expression", "%v", err)
	}
	return cel{program}
}

// Origin implements Kind.
func (cel) Origin() Origin { return OnNode }

func (q cel) judge(f *Facts, now time.Time) (condition.Judgement, finding) {
	if f.Gathered.value == nil {
		f.Gathered.value = expression.ValueOf(f.Node)
	}
	value := f.Gathered.value
	if f.Own != nil && slices.ContainsFunc(f.Node.Spec.Taints, f.isOwn) {
		node := *f.Node
		node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), f.isOwn)
		value = expression.ValueOf(&node)
	}
	satisfied, err := q.Eval(value)
	return f.undated(satisfied && err == nil, false, now), celFound{err}
}

// isOwn reports whether a taint is the rule's own. A rule that waits for its absence would hold a new node for ever.
func (f *Facts) isOwn(t corev1.Taint) bool { return t.MatchTaint(f.Own) }

// celFound is the error of the evaluation, or nil.
type celFound struct{ err error }

// refutes reports whether a result shows that the node is not as required.
func (f celFound) refutes() bool { return f.err == nil }

func (f celFound) message(r *Result) string {
	switch {
	case f.err != nil:
		return fmt.Sprintf("expression %s %v", r.Name, f.err)
	case r.Satisfied:
		return fmt.Sprintf("expression %s is true", r.Name)
	}
	return fmt.Sprintf("expression %s is false", r.Name)
}
