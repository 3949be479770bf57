// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Cause says why a piece of evidence counts as it does.
type Cause string

// The causes.
const (
	// CauseReported: it is as it was reported.
	CauseReported Cause = "Reported"
	// CauseMissing: it is not reported.
	CauseMissing Cause = "Missing"
	// CauseDefault: it is not reported, and the rule has a default for that.
	CauseDefault Cause = "Default"
	// CauseStale: it has not been reported again within its maximum age.
	CauseStale Cause = "Stale"
	// CauseBeforeBoot: it was reported before the node's last boot.
	CauseBeforeBoot Cause = "BeforeBoot"
)

// Judgement is what one piece of evidence is worth.
type Judgement struct {
	// Satisfied is whether it is as it must be.
	Satisfied bool
	// Status is the status that counts.
	Status v1alpha1.ConditionStatus
	// Cause says why Status is what it is.
	Cause Cause
	// Since is since when; zero: it has no time.
	Since time.Time
	// ChangesAt is when it turns by the passage of time alone; zero: it does not.
	ChangesAt time.Time
	// Heartbeat is when it was last reported; zero: unknown.
	Heartbeat time.Time
	// Awaits is true where a heartbeat alone would turn it.
	Awaits bool
	// Revived is a heartbeat: at the latest then it ceased to be too old; zero: it never can have been. The transition
	// time does not tell, where a condition is reported again as it was.
	Revived time.Time
}

// Judge looks at one required condition of a node. notBefore, where set, is when the node booted, by the node's own
// heartbeats: what was reported before counts as Unknown.
func Judge(c *v1alpha1.ConditionRequirement, node *corev1.Node, notBefore, now time.Time) Judgement {
	found := Find(node, c.Type)
	if found == nil {
		return judgeMissing(c)
	}
	j := Judgement{
		Status: v1alpha1.ConditionStatus(found.Status), Cause: CauseReported,
		Since: found.LastTransitionTime.Time, Heartbeat: found.LastHeartbeatTime.Time,
	}
	j.Satisfied = j.Status == c.RequiredStatus
	if j.Heartbeat.IsZero() {
		j.Heartbeat = j.Since
	}
	if j.Since.Before(notBefore) {
		j.Since = notBefore // what was so before the boot has to show itself again
	}
	// What is too old counts as Unknown. That makes no difference where Unknown is worth the same.
	ages := j.Satisfied != (c.RequiredStatus == v1alpha1.ConditionUnknown)
	if j.Heartbeat.Before(notBefore) {
		return j.tooOld(CauseBeforeBoot, notBefore, ages)
	}
	maxAge := c.MaxAge()
	if maxAge > 0 {
		var expires time.Time // what has no time is stale, since an unknown time
		if !j.Heartbeat.IsZero() {
			expires = j.Heartbeat.Add(maxAge)
		}
		if !now.Before(expires) {
			return j.tooOld(CauseStale, expires, ages)
		}
		if ages {
			j.ChangesAt = expires
		}
	}
	if ages && (maxAge > 0 || !notBefore.IsZero()) {
		j.Revived = j.Heartbeat
	}
	return j
}

func judgeMissing(c *v1alpha1.ConditionRequirement) Judgement {
	j := Judgement{Status: v1alpha1.ConditionUnknown, Cause: CauseMissing}
	if c.DefaultStatus != "" {
		j.Status, j.Cause = c.DefaultStatus, CauseDefault
	}
	j.Satisfied = j.Status == c.RequiredStatus
	return j
}

// tooOld is the judgement where evidence counts as Unknown since some time, which turns it or not.
func (j Judgement) tooOld(cause Cause, since time.Time, turns bool) Judgement {
	j.Status, j.Cause, j.Awaits = v1alpha1.ConditionUnknown, cause, turns
	if turns {
		j.Satisfied, j.Since = !j.Satisfied, since
	}
	return j
}

// Find returns the condition of a type on a node, or nil.
func Find(node *corev1.Node, conditionType string) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if string(node.Status.Conditions[i].Type) == conditionType {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// Message says in words what a required condition is worth.
func Message(c *v1alpha1.ConditionRequirement, j Judgement) string {
	must := ""
	if !j.Satisfied {
		must = fmt.Sprintf(", must be %s", c.RequiredStatus)
	}
	switch j.Cause {
	case CauseMissing:
		return fmt.Sprintf("condition %s has not been reported%s", c.Type, must)
	case CauseDefault:
		return fmt.Sprintf("condition %s has not been reported and is assumed to be %s%s", c.Type, j.Status, must)
	case CauseStale:
		if j.Heartbeat.IsZero() {
			return fmt.Sprintf("condition %s does not say when it was reported, which must be within %s%s", c.Type,
				c.MaxAge(), must)
		}
		return fmt.Sprintf("condition %s is stale: last reported at %s, at least %s ago%s",
			c.Type, j.Heartbeat.UTC().Format(time.RFC3339), c.MaxAge(), must)
	case CauseBeforeBoot:
		return fmt.Sprintf("condition %s has not been reported since the node booted%s", c.Type, must)
	}
	return fmt.Sprintf("condition %s is %s%s", c.Type, j.Status, must)
}
