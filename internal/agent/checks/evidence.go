// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness/condition"
)

// Evidence is what a rule requires of the node.
type Evidence struct {
	// Name and UID are the rule's.
	Name string
	UID  types.UID
	// Conditions are the conditions that it requires. With AnyOf, one of them is enough.
	Conditions []v1alpha1.ConditionRequirement
	AnyOf      bool
	// Elsewhere reports whether the rule requires evidence that the agent does not see, such as pods.
	Elsewhere bool
}

// judge returns the required conditions that the node does not meet, as a message; empty if it meets them.
func (e *Evidence) judge(node *corev1.Node, now time.Time) string {
	var missing []string
	for i := range e.Conditions {
		j := condition.Judge(&e.Conditions[i], node, time.Time{}, now)
		switch {
		case !j.Satisfied:
			missing = append(missing, condition.Message(&e.Conditions[i], j))
		case e.AnyOf:
			return ""
		}
	}
	return strings.Join(missing, "; ")
}

// heldBack is the reason if the agent sees no reason for the operator's verdict.
const heldBack = "the operator holds the node: see the status of the rule"

// recorded returns the operator's verdict from its record on the node; empty if there is none.
func (e *Evidence) recorded(node *corev1.Node) v1alpha1.HealthVerdict {
	value := node.Annotations[v1alpha1.RecordAnnotationPrefix+string(e.UID)]
	if value == "" {
		return ""
	}
	var record struct{ Health v1alpha1.HealthVerdict }
	if json.Unmarshal([]byte(value), &record) != nil {
		return ""
	}
	return record.Health
}

// verdict decides whether the node may get traffic under the rule: by the operator's verdict, which includes all
// evidence, windows, limits and overrides. Without one, it decides by the evidence that the agent sees.
func (e *Evidence) verdict(node *corev1.Node, now time.Time) Result {
	missing := e.judge(node, now)
	switch e.recorded(node) {
	case v1alpha1.HealthReady:
		return Pass()
	case v1alpha1.HealthNotReady:
		if missing == "" {
			missing = heldBack
		}
		return Fail(missing)
	}
	return e.visible(missing)
}

// visible decides by the evidence that the agent sees. missing is the result of judge.
func (e *Evidence) visible(missing string) Result {
	satisfied := len(e.Conditions) > 0 && missing == ""
	switch {
	case missing != "" && (!e.Elsewhere || !e.AnyOf):
		return Fail(missing)
	case e.Elsewhere && (!e.AnyOf || !satisfied):
		return FailedOpen("the rule requires evidence that the agent does not see")
	}
	return Pass()
}

// conditions decides whether the node's current conditions meet the rule. If other evidence of the rule may take their
// place, its verdict counts.
func (e *Evidence) conditions(node *corev1.Node, now time.Time) Result {
	missing := e.judge(node, now)
	switch {
	case missing == "":
		return Pass()
	case e.AnyOf && e.Elsewhere:
		return e.verdict(node, now)
	}
	return Fail(missing)
}
