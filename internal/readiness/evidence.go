// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// judgement is the evaluation of one piece of evidence.
type judgement = condition.Judgement

// Result is the evaluation of one piece of evidence.
type Result struct {
	judgement
	// Type is the type of a condition, and empty for a requirement.
	Type string
	// Name is the name of a requirement, and empty for a condition.
	Name string
	// Required is the status that the rule requires.
	Required v1alpha1.ConditionStatus

	condition   *v1alpha1.ConditionRequirement
	requirement *ruleset.Requirement
	found       *found
}

// found holds the evidence that was found for a requirement.
type found struct {
	pods       podsFound
	daemonSets *daemonSetsFound
	driver     *storagev1.CSINodeDriver
	amount     resource.Quantity
	count      int64 // of devices
	known      bool  // of amount, count and other
	other      Satisfaction
	err        error // of the expression
}

// Default returns the status that the rule's defaultStatus assumed, or "" if it was not used.
func (r *Result) Default() v1alpha1.ConditionStatus {
	if r.Cause != condition.CauseDefault {
		return ""
	}
	return r.Status
}

// Blocking describes the evidence that keeps the verdict from being ready. It is empty if the verdict is ready.
func (v *Verdict) Blocking() string {
	if v.Ready {
		return ""
	}
	var out []string
	for i := range v.Results {
		if !v.Results[i].Satisfied {
			out = append(out, v.Results[i].Message())
		}
	}
	return strings.Join(out, "; ")
}

// Refuted reports whether evidence that was reported shows that the rule does not hold. Evidence that is missing,
// stale, Unknown or from before the boot shows nothing. With anyOf, every piece must be refuted.
func (v *Verdict) Refuted(anyOf bool) bool {
	refuted := 0
	for i := range v.Results {
		if v.Results[i].refuted() {
			refuted++
		}
	}
	if anyOf {
		return refuted == len(v.Results)
	}
	return refuted > 0
}

func (r *Result) refuted() bool {
	switch {
	case r.Satisfied || r.Cause != condition.CauseReported:
		return false
	case r.requirement == nil:
		return r.Status != v1alpha1.ConditionUnknown
	case r.requirement.RuleSatisfied != "":
		return r.found.other.Refuted
	}
	return r.found.err == nil
}

// Warning describes why the evidence is weaker than it looks. It is usually empty. It does not depend on the node.
func (v *Verdict) Warning() string {
	for i := range v.Results {
		if w := v.Results[i].warning(); w != "" {
			return w
		}
	}
	return ""
}
