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

// DefaultHeartbeat is how often a condition is written again where nothing changes.
const DefaultHeartbeat = 5 * time.Minute

// Reasons of the conditions that probes of rules publish. After a restart an agent knows by them which conditions an
// agent has published. The ValidatingAdmissionPolicy nodegate-agent-conditions knows them, too.
const (
	// ReasonSucceeded means that the probe succeeds.
	ReasonSucceeded = "NodegateProbeSucceeded"
	// ReasonFailed means that the probe fails.
	ReasonFailed = "NodegateProbeFailed"
	// ReasonInvalid means that the probe cannot run as it is configured.
	ReasonInvalid = "NodegateProbeInvalid"
	// ReasonTimedOut means that the probe had no result when its time was over.
	ReasonTimedOut = "ProbeTimedOut"
)

// Finding is what one run of a probe has found.
type Finding struct {
	OK              bool
	Reason, Message string
}

// Probe is one probe: a check, which the checks' runner runs, and how its results become a condition.
type Probe struct {
	// ConditionType is the type of the condition that the probe publishes.
	ConditionType string
	// Identity changes when the probe does. A probe with the same identity continues undisturbed.
	Identity string
	// Check looks once. Its Timeout is the probe's.
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
}

// timedOut begins the message of a condition with ReasonTimedOut.
const timedOut = "the probe had no result after "

// finding puts the outcome of a run into a condition's words. They stay the same while the outcome does.
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

// desired is what a condition shall be.
type desired struct {
	status          corev1.ConditionStatus
	reason, message string
	checkedAt       time.Time // of the last run that found so
	heartbeat       time.Duration
}

// state counts the runs of one probe.
type state struct {
	probe *Probe
	want  *desired // nil: nothing can be said yet
	runs  int      // in a row with the same result
	ok    bool     // that result
}

// found takes a finding into account. before is the condition as it is on the node, nil if there is none. It remains
// until as many runs as the threshold says have found otherwise, also if the agent restarts. What was found before the
// node's boot says nothing about the node now: then the first run decides.
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
		agrees = !f.OK // if nothing was ever said, one failure is enough to say no
	}
	if agrees || s.runs >= threshold {
		s.want = &desired{status: status, reason: f.Reason, message: f.Message, checkedAt: now, heartbeat: s.probe.Heartbeat}
	}
}
