// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/text"
)

// Result is the evaluation of one piece of evidence.
type Result struct {
	condition.Judgement
	// Type is the type of a condition, and empty for a requirement.
	Type string
	// Name is the name of a requirement, and empty for a condition.
	Name string
	// Required is the status that the rule requires.
	Required v1alpha1.ConditionStatus

	condition *v1alpha1.ConditionRequirement
	found     finding // of a requirement; nil if that is invalid
}

// Default returns the status that the rule's defaultStatus assumed, or "" if it was not used.
func (r *Result) Default() v1alpha1.ConditionStatus {
	if r.Cause != condition.CauseDefault {
		return ""
	}
	return r.Status
}

// Refuted reports whether evidence that was reported shows that it is not as the rule requires. Evidence that is
// missing, stale, Unknown or from before the boot shows nothing.
func (r *Result) Refuted() bool {
	if r.Satisfied || r.Cause != condition.CauseReported {
		return false
	}
	if r.condition != nil {
		return r.Status != v1alpha1.ConditionUnknown
	}
	f, ok := r.found.(interface{ refutes() bool })
	return !ok || f.refutes()
}

// Warning describes why the evidence is weaker than it looks. It is usually empty. It does not depend on the node.
func (r *Result) Warning() string {
	if f, ok := r.found.(interface{ warning(name string) string }); ok {
		return f.warning(r.Name)
	}
	return ""
}

// Message describes the evidence. Statuses, events, answers of webhooks and the plugin all use it. It is bounded,
// because it may quote what is on a node or a pod.
func (r *Result) Message() string { return text.Clip(r.words(), v1alpha1.MaxStatusMessage) }

func (r *Result) words() string {
	switch {
	case r.condition != nil:
		return condition.Message(r.condition, r.Judgement)
	case r.found == nil:
		return fmt.Sprintf("requirement %s is invalid, or of a kind that this version does not support", r.Name)
	case r.Cause == condition.CauseBeforeBoot:
		return fmt.Sprintf("requirement %s may be from before the node booted", r.Name)
	}
	return r.found.message(r)
}
