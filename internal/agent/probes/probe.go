// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DefaultHeartbeat is how often a condition is written again where nothing changes.
const DefaultHeartbeat = 5 * time.Minute

// Reasons of the conditions that probes of rules publish. By them an agent knows, after a restart, which conditions are an
// agent's: nobody else may use them.
const (
	// ReasonSucceeded: the probe succeeds.
	ReasonSucceeded = "NodegateProbeSucceeded"
	// ReasonFailed: the probe fails.
	ReasonFailed = "NodegateProbeFailed"
	// ReasonInvalid: the probe cannot be run as it is configured.
	ReasonInvalid = "NodegateProbeInvalid"
)

// Finding is what one run of a probe has found.
type Finding struct {
	OK              bool
	Reason, Message string
}

// Probe is one probe.
type Probe struct {
	// ConditionType is the type of the condition that it publishes.
	ConditionType string
	// Identity changes when the probe does: one with the same identity goes on as it is.
	Identity string
	// Period is how often it runs, Timeout for how long one run may take.
	Period, Timeout time.Duration
	// Fixed switches off the spread of runs by up to a tenth of the period.
	Fixed bool
	// SuccessThreshold and FailureThreshold are how many runs in a row must agree before the condition turns.
	SuccessThreshold, FailureThreshold int
	// Heartbeat is how often the condition is written where nothing changes.
	Heartbeat time.Duration
	// Run looks once.
	Run func(ctx context.Context) Finding
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

// found takes a finding into account. before is the condition as it stands on the node, nil if there is none: it counts on
// until as many runs as the threshold says have found otherwise, also through a restart of the agent.
func (s *state) found(f Finding, before *corev1.NodeCondition, now time.Time) {
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
	case before != nil:
		agrees = before.Status == status
	default:
		agrees = !f.OK // where nothing was ever said, one failure is enough to say no
	}
	if agrees || s.runs >= threshold {
		s.want = &desired{status: status, reason: f.Reason, message: f.Message, checkedAt: now, heartbeat: s.probe.Heartbeat}
	}
}
