// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Evidence is what a rule requires of the node.
//
// The agent judges it as internal/readiness does, which a test compares. It does not import that: with the expressions of
// rules it costs more memory than all the rest of the agent.
type Evidence struct {
	// Name is the rule's.
	Name string
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

// verdict is whether the rule holds, as far as that can be seen here.
func (e *Evidence) verdict(node *corev1.Node, now time.Time) Result {
	missing := e.judge(node, now)
	satisfied := len(e.Conditions) > 0 && missing == ""
	switch {
	case missing != "" && (!e.Elsewhere || !e.AnyOf):
		return Fail(missing)
	case e.Elsewhere && (!e.AnyOf || !satisfied):
		return FailedOpen("the rule needs evidence that this agent does not see")
	}
	return Pass()
}
