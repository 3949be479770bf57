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

// Result is one piece of evidence as it was judged. Message puts it into words.
type Result struct {
	judgement
	// Type is the condition's type; empty for a requirement.
	Type string
	// Name is the requirement's name; empty for a condition.
	Name string
	// Required is the status that the rule requires.
	Required v1alpha1.ConditionStatus

	condition   *v1alpha1.ConditionRequirement
	requirement *ruleset.Requirement
	found       *found
}

// found is what a requirement was judged by.
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

// Default is the status that was assumed, or empty if none was.
func (r *Result) Default() v1alpha1.ConditionStatus {
	if r.Cause != CauseDefault {
		return ""
	}
	return r.Status
}

// Blocking says in words what keeps the rule from holding; it is empty if the rule holds.
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

// Refuted reports whether the rule does not hold because of evidence that was reported. Evidence that is missing, stale
// or from before the boot, and a status Unknown, refute nothing: the rule might hold. With anyOf each piece must be
// refuted.
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
	case r.Satisfied || r.Cause != CauseReported:
		return false
	case r.requirement == nil:
		return r.Status != v1alpha1.ConditionUnknown
	case r.requirement.RuleSatisfied != "":
		return r.found.other.Refuted
	}
	return r.found.err == nil
}

// Warning says in words what makes the evidence weaker than it looks, the same on each node; it is usually empty.
func (v *Verdict) Warning() string {
	for i := range v.Results {
		if w := v.Results[i].warning(); w != "" {
			return w
		}
	}
	return ""
}
