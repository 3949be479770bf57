// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
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
	for _, c := range rule.Status.Conditions {
		if c.Status != bad[c.Type] || slices.Contains(quiet, c.Reason) {
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
