// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// StateUnreported means that the operator has not reported on the present version of a rule.
const StateUnreported = "Unreported"

// heldNodes is how many held nodes are named.
const heldNodes = 10

// Statuses are how rules stand by the operator's reports, sorted by name.
func Statuses(rules []v1alpha1.NodeReadinessRule) *RuleStatusList {
	out := &RuleStatusList{TypeMeta: Type(KindRuleStatusList), Items: make([]RuleStatus, 0, len(rules))}
	for i := range rules {
		out.Items = append(out.Items, StatusOf(&rules[i]))
	}
	slices.SortFunc(out.Items, func(a, b RuleStatus) int { return strings.Compare(a.Rule, b.Rule) })
	return out
}

// StatusOf is how a rule stands.
func StatusOf(rule *v1alpha1.NodeReadinessRule) RuleStatus {
	s := RuleStatus{Rule: rule.Name, Mode: string(rule.Spec.EnforcementMode), Nodes: rule.Status.Nodes, CreatedAt: rule.CreationTimestamp,
		Paused: PausedAt(rule)}
	if t := rule.Spec.Taint; t != nil {
		s.Taint = t.Key + "=" + t.Value + ":" + string(t.Effect)
	}
	c := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case !rule.DeletionTimestamp.IsZero():
		s.State, s.Message = "Deleting", "it is being deleted, and waits until the operator has taken its taints off"
	case c == nil:
		s.State, s.Message = StateUnreported, "the operator has not reported on it yet: does it run?"
	case c.ObservedGeneration != rule.Generation:
		s.State, s.Message = StateUnreported, "the operator has not reported on its last change yet: does it run?"
	default:
		s.State = c.Reason
		if c.Status != metav1.ConditionTrue && c.Reason != "DryRun" && c.Reason != "Suspended" {
			s.Message = c.Message
		}
	}
	s.BudgetExhausted = meta.IsStatusConditionTrue(rule.Status.Conditions, v1alpha1.ConditionBudgetExhausted)
	for _, n := range rule.Status.NodeEvaluations {
		if n.State == v1alpha1.NodeStateHeld && len(s.HeldNodes) < heldNodes {
			s.HeldNodes = append(s.HeldNodes, n.NodeName)
		}
	}
	for _, n := range rule.Status.FailedNodes {
		if len(s.HeldNodes) < heldNodes {
			s.HeldNodes = append(s.HeldNodes, n.NodeName)
		}
	}
	return s
}

// PausedAt is when kubectl nodegate pause has suspended a rule; nil, where it has not.
func PausedAt(rule *v1alpha1.NodeReadinessRule) *metav1.Time {
	value, ok := rule.Annotations[v1alpha1.PausedAnnotation]
	if !ok || !rule.Spec.Suspend {
		return nil
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		t = time.Time{} // somebody else wrote it: paused, nobody knows since when
	}
	return &metav1.Time{Time: t}
}
