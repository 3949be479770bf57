// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Evidence is what a rule requires of the node.
//
// The agent judges it as internal/readiness does, which a test compares. It does not import that: with the expressions of
// rules it costs more memory than all the rest of the agent.
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
		problem := lacks(node, &e.Conditions[i], now)
		switch {
		case problem != "":
			missing = append(missing, problem)
		case e.AnyOf:
			return ""
		}
	}
	return strings.Join(missing, "; ")
}

// lacks says why a required condition is not as it must be; empty if it is. What is stale counts as Unknown, what is missing as
// the default, or as Unknown.
func lacks(node *corev1.Node, c *v1alpha1.ConditionRequirement, now time.Time) string {
	status, why := v1alpha1.ConditionUnknown, "has not been reported"
	if c.DefaultStatus != "" {
		status = c.DefaultStatus
	}
	for i := range node.Status.Conditions {
		found := &node.Status.Conditions[i]
		if string(found.Type) != c.Type {
			continue
		}
		status, why = v1alpha1.ConditionStatus(found.Status), "is "+string(found.Status)
		heartbeat := found.LastHeartbeatTime.Time
		if heartbeat.IsZero() {
			heartbeat = found.LastTransitionTime.Time
		}
		if maxAge := c.MaxAge(); maxAge > 0 && (heartbeat.IsZero() || !now.Before(heartbeat.Add(maxAge))) {
			status, why = v1alpha1.ConditionUnknown, fmt.Sprintf("has not been reported again within %s", maxAge)
		}
		break
	}
	if status == c.RequiredStatus {
		return ""
	}
	return fmt.Sprintf("condition %s %s, must be %s", c.Type, why, c.RequiredStatus)
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
// windows, breaker and overrides. Where the operator has said nothing, it is as far as that can be seen here.
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

// conditions is whether the node's conditions are as the rule requires at this moment. Where others of the rule's evidence
// may do instead, its verdict counts.
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
