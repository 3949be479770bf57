// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// replacementWindow is the time that maxPerHour is about.
const replacementWindow = time.Hour

// Replaceable reports whether a rule may hand a node over for replacement, as far as the node itself says. The caller
// also knows that evidence is missing, and which pods run on the node.
func Replaceable(rule *ruleset.Rule, node *corev1.Node, now time.Time) bool {
	if rule.Mode != ruleset.Enforced || !rule.Spec.Timeout.Replaces() || !node.DeletionTimestamp.IsZero() ||
		ruleset.ControlPlane(node.Labels) || v1alpha1.InMaintenance(node.Annotations, now) {
		return false
	}
	if o, err := nodeview.OverrideOf(node, now); err != nil || o.Action != nodeview.OverrideNone {
		return false
	}
	s := nodeview.StateOf(rule, node, now)
	return s.Matches && s.Claimed && s.Present && !s.Rebooted && s.Expired(&s.Record)
}

// MarkOf returns the annotation by which a rule hands nodes over, as a record has it, or "" if it uses none.
func MarkOf(rule *ruleset.Rule) string {
	if t := rule.Spec.Timeout; t.Replaces() && t.Replace.Annotation != nil {
		return t.Replace.Annotation.Key + "=" + t.Replace.Annotation.ValueOrDefault()
	}
	return ""
}

// Allowance is what the limits of a rule's replacements allow.
type Allowance struct {
	// Exhausted is whether the rule has handed over MaxReplacementsInARow nodes without a node becoming ready.
	Exhausted bool
	// Next is when maxPerHour allows one more; zero: now.
	Next time.Time
}

// AllowanceOf counts the replacements in a rule's status, except that of the node that it is asked for.
func AllowanceOf(spec *v1alpha1.Replace, status *v1alpha1.ReplacementStatus, generation int64, node types.UID,
	now time.Time) Allowance {
	if status == nil {
		return Allowance{}
	}
	var ends []time.Time
	for i := range status.Last {
		if status.Last[i].NodeUID == node {
			continue
		}
		if end := status.Last[i].HandoverTime.Add(replacementWindow); end.After(now) {
			ends = append(ends, end)
		}
	}
	a := Allowance{Exhausted: inARow(status, generation, node) >= v1alpha1.MaxReplacementsInARow}
	if over := len(ends) - spec.PerHour(); over >= 0 {
		slices.SortFunc(ends, time.Time.Compare)
		a.Next = ends[over]
	}
	return a
}

// inARow counts the replacements since the rule was last edited and a node last became ready. A replacement in the same
// second as that counts, that of the node itself does not.
func inARow(status *v1alpha1.ReplacementStatus, generation int64, node types.UID) int {
	n := 0
	for i := range status.Last {
		r := &status.Last[i]
		if r.NodeUID != node && r.Generation == generation && !r.HandoverTime.Before(status.LastReadyTime) {
			n++
		}
	}
	return n
}

// Replaced returns which of a rule's replacements a node is; -1 if it is none of them.
func Replaced(status *v1alpha1.ReplacementStatus, node types.UID) int {
	if status == nil {
		return -1
	}
	return slices.IndexFunc(status.Last, func(r v1alpha1.Replacement) bool { return r.NodeUID == node })
}

// ReplacementsAt brings the replacements in a rule's status up to date: a node that became ready ends the row, and what
// is dated in the future is dated now, so that it does not count for longer than an hour. The same
// happens to an entry without a time, from before the CRD had this field: the API server would refuse the status. A
// time in the future ends no row. Without a change it returns the status as it was.
func ReplacementsAt(status *v1alpha1.ReplacementStatus, generation int64, readyAt,
	now time.Time) *v1alpha1.ReplacementStatus {
	if status == nil {
		return nil
	}
	out := status.DeepCopy()
	for i := range out.Last {
		if at := &out.Last[i].HandoverTime; at.IsZero() || at.After(now) {
			*at = metav1.NewTime(now.Truncate(time.Second))
		}
	}
	if at := out.LastReadyTime; at != nil && at.After(now) { // or no replacement would count until then
		*at = metav1.NewTime(now.Truncate(time.Second))
	}
	if readyAt.IsZero() || readyAt.After(now) {
		return out
	}
	ready := out.DeepCopy()
	ready.LastReadyTime = new(metav1.NewTime(readyAt))
	if inARow(ready, generation, "") < inARow(out, generation, "") {
		return ready
	}
	return out
}

// ReadyAt returns when a node became ready for the first time that was new under a rule which replaces nodes. It
// returns zero if the node did not, or that is not known.
func ReadyAt(rule *ruleset.Rule, s *nodeview.State) time.Time {
	if !s.Matches || !rule.Spec.Timeout.Replaces() {
		return time.Time{}
	}
	return s.Record.FirstReady()
}
