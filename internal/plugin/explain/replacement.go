// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/replace"
)

// replacement tells whether the rule has handed the node over for replacement, or when it may; empty if it does not
// come to that.
func (x *explainer) replacement() string {
	rule, spec := x.stored(), x.d.Rule.Spec.Timeout
	if rule == nil || !spec.Replaces() {
		return ""
	}
	if i := replace.Replaced(rule.Status.Replacements, x.node.UID); i >= 0 {
		of := &rule.Status.Replacements.Last[i]
		return fmt.Sprintf("handed over for replacement (%s) %s ago", of.Method, report.Age(x.Now, of.HandoverTime.Time))
	}
	if !x.d.Expired {
		return ""
	}
	if !replace.Replaceable(x.d.Rule, x.node, x.Now) {
		return "not handed over for replacement: it is of the control plane, in maintenance, overridden or being deleted"
	}
	a := replace.AllowanceOf(spec.Replace, rule.Status.Replacements, rule.Generation, x.node.UID, x.Now)
	switch c := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReplacing); {
	case c != nil && c.Reason == "ReplacementFailed":
		return "not handed over for replacement yet: " + c.Message
	case a.Exhausted:
		return fmt.Sprintf("not handed over for replacement: %d nodes in a row were, and no node became ready "+
			"(ReplacementsExhausted)", v1alpha1.MaxReplacementsInARow)
	case a.Next.After(x.Now):
		return fmt.Sprintf("the next node may be handed over for replacement in %s (maxPerHour: %d)",
			duration.HumanDuration(a.Next.Sub(x.Now)), spec.Replace.PerHour())
	}
	return "may be handed over for replacement now, if it runs only DaemonSet and static pods"
}
