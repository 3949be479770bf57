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
	// Conditions are the conditions that it requires; AnyOf: one of them suffices.
	Conditions []v1alpha1.ConditionRequirement
	AnyOf      bool
	// Elsewhere is true where the rule needs evidence that the agent does not see, such as pods.
	Elsewhere bool
}

// judge says what keeps the node from having what the rule requires of its conditions; empty if nothing does.
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

// heldBack is the reason where only the operator knows why.
const heldBack = "the operator holds the node back: see the rule's status"

// recorded is the operator's verdict about the rule, which stands in its record on the node; empty where there is none.
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

// verdict is whether the rule lets the node have traffic: as the operator says, who knows all evidence and the rule's
// windows, limit and overrides. Where the operator has said nothing, it is as far as that can be seen here.
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

// visible is whether the rule holds, as far as that can be seen here.
func (e *Evidence) visible(missing string) Result {
	satisfied := len(e.Conditions) > 0 && missing == ""
	switch {
	case missing != "" && (!e.Elsewhere || !e.AnyOf):
		return Fail(missing)
	case e.Elsewhere && (!e.AnyOf || !satisfied):
		return FailedOpen("the rule needs evidence that this agent does not see")
	}
	return Pass()
}

// conditions is whether the node's conditions are as the rule requires at this moment. Where others of the rule's
// evidence may do instead, its verdict counts.
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
