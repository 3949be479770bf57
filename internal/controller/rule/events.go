// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/guard"
)

// Reasons and actions of events on rules, besides the reasons of the conditions that they report.
const (
	reasonCleanupIncomplete  = "CleanupIncomplete"
	reasonNodesTurnedUnready = "NodesTurnedUnready"
	reasonWeakEvidence       = "WeakEvidence"
	reasonAnnotationsFull    = "AnnotationsFull" // the nodes have such events, too

	actionCleanUp  = "CleanUp"
	actionEvaluate = "EvaluateRule"
)

// announce emits warnings about the conditions that are new in a status that was written.
func (r *Reconciler) announce(rule *v1alpha1.NodeReadinessRule, before *v1alpha1.NodeReadinessRuleStatus,
	m *fleet.Material) {
	if text := warned(&rule.Status); text != "" && text != warned(before) {
		reason := reasonWeakEvidence
		if m.Warning == fleet.AnnotationsFull {
			reason = reasonAnnotationsFull
		}
		r.warn(rule, reason, actionEvaluate, "%s", m.Warning)
	}
	bad := map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady:           metav1.ConditionFalse,
		v1alpha1.ConditionConflicted:      metav1.ConditionTrue,
		v1alpha1.ConditionBudgetExhausted: metav1.ConditionTrue,
		v1alpha1.ConditionNodesReady:      metav1.ConditionFalse,
		v1alpha1.ConditionGuarding:        metav1.ConditionFalse,
		v1alpha1.ConditionPublishing:      metav1.ConditionFalse,
		v1alpha1.ConditionReplacing:       metav1.ConditionFalse,
		v1alpha1.ConditionServed:          metav1.ConditionFalse,
	}
	for _, c := range rule.Status.Conditions {
		if c.Status != bad[c.Type] || c.Reason == ReasonDryRun || c.Reason == ReasonSuspended ||
			c.Reason == ReasonNodesNotReady || c.Reason == guard.ReasonNotLookedAt {
			continue
		}
		if old := meta.FindStatusCondition(before.Conditions, c.Type); old != nil && old.Status == c.Status &&
			old.Reason == c.Reason {
			continue
		}
		r.warn(rule, c.Reason, actionEvaluate, "%s", c.Message)
	}
}

func (r *Reconciler) warn(rule *v1alpha1.NodeReadinessRule, reason, action, format string, args ...any) {
	r.Recorder.Eventf(rule, nil, corev1.EventTypeWarning, reason, action, format, args...)
}
