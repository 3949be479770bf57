// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Cause is the reason for the status of a piece of evidence.
type Cause string

// The causes.
const (
	// CauseReported: the status was reported.
	CauseReported Cause = "Reported"
	// CauseMissing: no status was reported.
	CauseMissing Cause = "Missing"
	// CauseDefault: no status was reported, and the rule's defaultStatus applies.
	CauseDefault Cause = "Default"
	// CauseStale: the status is older than maxAgeSeconds.
	CauseStale Cause = "Stale"
	// CauseBeforeBoot: the status was reported before the node's last boot.
	CauseBeforeBoot Cause = "BeforeBoot"
	// CauseInvalid: the status that was reported is none that a condition may have.
	CauseInvalid Cause = "Invalid"
	// CauseUnread: the evidence could not be read, so that it is not known whether it is as the rule requires.
	CauseUnread Cause = "Unread"
	// CauseBooting: another rule decides, and waits until the boot of the node is confirmed. Until then it is not known
	// whether the evidence is as the rule requires.
	CauseBooting Cause = "Booting"
)

// Judgement is the evaluation of one piece of evidence.
type Judgement struct {
	// Satisfied reports whether the evidence is as the rule requires.
	Satisfied bool
	// Status is the status that counts: True, False or Unknown.
	Status v1alpha1.ConditionStatus
	// Reported is the status that was reported, with CauseInvalid.
	Reported string
	// Cause is the reason for Status.
	Cause Cause
	// Since is when Satisfied last changed. Zero means unknown.
	Since time.Time
	// ChangesAt is when Satisfied or Status changes even if nothing else does. Zero means never.
	ChangesAt time.Time
	// Heartbeat is when the evidence was last reported. Zero means unknown.
	Heartbeat time.Time
	// Awaits says that a heartbeat alone would change Satisfied or Status, or ChangesAt in a way that its own time does
	// not tell.
	Awaits bool
	// Revived is a heartbeat: the evidence has been fresh at least since then. Zero means that it was never stale. The
	// transition time does not tell if a condition is reported again with the same status.
	Revived time.Time
}

// undecided are the reasons of conditions that rules publish while nothing is known about the node, and what they mean
// for rules that require the condition.
var undecided = map[string]Cause{
	v1alpha1.PublishedReasonPrefix + "Booting":         CauseBooting,
	v1alpha1.PublishedReasonPrefix + "EvidenceUnknown": CauseUnread,
}

// Undecided returns why the rule that publishes a condition does not know what the node is, or "". The condition may be
// nil.
func Undecided(found *corev1.NodeCondition) Cause {
	if found == nil || found.Status != corev1.ConditionUnknown {
		return ""
	}
	return undecided[found.Reason]
}

// Judge evaluates a condition of a node. If notBefore is not zero, a status that was reported before counts as Unknown:
// it is when the node booted, by kubelet's clock.
func Judge(c *v1alpha1.ConditionRequirement, node *corev1.Node, notBefore, now time.Time) Judgement {
	return JudgeReport(c, Find(node, c.Type), notBefore, now)
}

// JudgeReport is Judge for a condition that was found, or nil.
func JudgeReport(c *v1alpha1.ConditionRequirement, found *corev1.NodeCondition, notBefore, now time.Time) Judgement {
	if found == nil {
		return judgeMissing(c)
	}
	j := Judgement{
		Status: v1alpha1.ConditionStatus(StatusOf(found)), Cause: CauseReported,
		Since: found.LastTransitionTime.Time, Heartbeat: found.LastHeartbeatTime.Time,
	}
	if string(j.Status) != string(found.Status) {
		j.Cause, j.Reported = CauseInvalid, string(found.Status)
	}
	j.Satisfied = j.Status == c.RequiredStatus
	if j.Heartbeat.IsZero() {
		j.Heartbeat = j.Since
	}
	if j.Since.Before(notBefore) {
		j.Since = notBefore // evidence from before the boot must be reported again
	}
	// A status that is too old counts as Unknown, which may not change whether the rule's requirement is satisfied.
	ages := j.Satisfied != (c.RequiredStatus == v1alpha1.ConditionUnknown)
	if j.Heartbeat.Before(notBefore) {
		return j.tooOld(CauseBeforeBoot, notBefore, ages)
	}
	maxAge := c.MaxAge()
	if maxAge > 0 {
		var expires time.Time // a condition without any time is stale
		if !j.Heartbeat.IsZero() {
			expires = j.Heartbeat.Add(maxAge)
		}
		if !now.Before(expires) {
			return j.tooOld(CauseStale, expires, ages)
		}
		if j.Status != v1alpha1.ConditionUnknown {
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

// tooOld returns the judgement of evidence that counts as Unknown since a time. turns says whether that changes
// Satisfied.
func (j Judgement) tooOld(cause Cause, since time.Time, turns bool) Judgement {
	j.Awaits = j.Status != v1alpha1.ConditionUnknown
	j.Status, j.Cause = v1alpha1.ConditionUnknown, cause
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

// StatusOf returns the status of a condition. The API server accepts any text there. What is not True or False counts
// as Unknown, in all decisions and wherever the operator writes it.
func StatusOf(c *corev1.NodeCondition) corev1.ConditionStatus {
	if c.Status == corev1.ConditionTrue || c.Status == corev1.ConditionFalse {
		return c.Status
	}
	return corev1.ConditionUnknown
}

// OfPod returns the condition of a type of a pod, or nil.
func OfPod(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// maxReported is how many characters of an invalid status a message shows.
const maxReported = 32

// Message describes a condition and its judgement.
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
	case CauseInvalid:
		return fmt.Sprintf("condition %s is %.*q, which is not True, False or Unknown%s", c.Type, maxReported, j.Reported,
			must)
	case CauseBeforeBoot:
		return fmt.Sprintf("condition %s has not been reported since the node booted%s", c.Type, must)
	}
	return fmt.Sprintf("condition %s is %s%s", c.Type, j.Status, must)
}
