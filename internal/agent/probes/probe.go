// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/agent/checks"
)

// DefaultHeartbeat is how often a condition is written if nothing changes.
const DefaultHeartbeat = 5 * time.Minute

// Reasons of the conditions that probes of rules publish. They show an agent that has restarted which conditions an
// agent has published. The ValidatingAdmissionPolicy nodegate-agent-conditions uses them, too.
const (
	// ReasonSucceeded means that the probe succeeds.
	ReasonSucceeded = "NodegateProbeSucceeded"
	// ReasonFailed means that the probe fails.
	ReasonFailed = "NodegateProbeFailed"
	// ReasonInvalid means that the probe cannot run as it is configured.
	ReasonInvalid = "NodegateProbeInvalid"
	// ReasonTimedOut means that the probe exceeded its time limit.
	ReasonTimedOut = "ProbeTimedOut"
)

// Finding is the result of one run of a probe.
type Finding struct {
	OK              bool
	Reason, Message string
}

// Probe is a check, and how its results become a condition.
type Probe struct {
	// ConditionType is the type of the condition that the probe publishes.
	ConditionType string
	// Identity changes with the probe. A probe with the same identity continues to run.
	Identity string
	// Check runs once in each period. Its Timeout is the timeout of the probe.
	Check checks.Check
	// Success is the message of the condition while the probe succeeds.
	Success string
	// Period is how often the probe runs.
	Period time.Duration
	// Fixed switches off the spread of runs by up to a tenth of the period.
	Fixed bool
	// SuccessThreshold and FailureThreshold are how many runs in a row must agree before the condition changes.
	SuccessThreshold, FailureThreshold int
	// Heartbeat is how often the condition is written if nothing changes.
	Heartbeat time.Duration
	// Skip runs nothing and leaves the condition as it is: this agent does not know what the probe does.
	Skip bool
}

// timedOut begins the message of a condition with ReasonTimedOut.
const timedOut = "the probe had no result after "

// finding returns an outcome as the reason and message of a condition, which are the same for equal outcomes.
func (p *Probe) finding(o checks.Outcome) Finding {
	switch {
	case o.Passed:
		return Finding{OK: true, Reason: cmp.Or(o.Code, ReasonSucceeded), Message: cmp.Or(p.Success, "the probe succeeds")}
	case o.Misconfigured:
		return Finding{Reason: ReasonInvalid, Message: o.Reason}
	case o.Code != "":
		return Finding{Reason: o.Code, Message: o.Reason}
	case o.TimedOut:
		return Finding{Reason: ReasonTimedOut, Message: fmt.Sprintf("%s%s", timedOut, p.Check.Timeout)}
	}
	return Finding{Reason: ReasonFailed, Message: o.Reason}
}

// desired is the desired state of a condition.
type desired struct {
	status          corev1.ConditionStatus
	reason, message string
	checkedAt       time.Time // of the last run with this status
	heartbeat       time.Duration
}

// state counts the runs of one probe.
type state struct {
	probe *Probe
	want  *desired // nil: not decided yet
	runs  int      // in a row with the same result
	ok    bool     // that result
}

// found counts a finding. before is the condition on the node, or nil if there is none. It stays until as many runs in
// a row as the threshold find otherwise, also if the agent restarts. If it is from before the node's boot, the first
// run decides.
func (s *state) found(f Finding, before *corev1.NodeCondition, now, boot time.Time) {
	if s.runs == 0 || s.ok != f.OK {
		s.ok, s.runs = f.OK, 0
	}
	s.runs++
	status, threshold := corev1.ConditionTrue, s.probe.SuccessThreshold
	if !f.OK {
		status, threshold = corev1.ConditionFalse, s.probe.FailureThreshold
	}
	agrees := false
	switch {
	case s.want != nil:
		agrees = s.want.status == status
	case before != nil && heartbeat(before).Before(boot):
		agrees = true
	case before != nil:
		agrees = before.Status == status
	default:
		agrees = !f.OK // without a condition, one failure is enough
	}
	if agrees || s.runs >= threshold {
		s.want = &desired{status: status, reason: f.Reason, message: f.Message, checkedAt: now, heartbeat: s.probe.Heartbeat}
	}
}
