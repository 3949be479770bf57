// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"strings"
	"time"
)

// DefaultTimeout is how long a check may run by default. OKDRouter has another default.
const DefaultTimeout = time.Second

// Names of the checks.
const (
	NameNodeReady        = "node_ready"
	NameOKDRouter        = "okd_router_1936"
	NameFilesystem       = "filesystem_ro"
	NameKubelet          = "kubelet"
	NameContainerRuntime = "container_runtime"
	NameDiskPressure     = "disk_pressure"
	NameNetwork          = "network"
	NameCustomConditions = "custom_conditions"
	NameSchedulable      = "schedulable"
	// NameHTTPPrefix begins the names of HTTP checks. Users choose the rest of the name.
	NameHTTPPrefix = "http:"
	// NameRules is the check of all rules with health. NameRulePrefix and the name of a rule is the check of one rule.
	NameRules      = "rules"
	NameRulePrefix = "rule:"
)

// Result is the result of a check.
type Result struct {
	// Passed reports whether the node passes.
	Passed bool
	// Reason says why the check failed, in one short line. It is empty if the check passed.
	Reason string
	// Code is the reason of the node condition that a probe publishes. Empty: the default reason.
	Code string
	// FailOpen says why the check passed although it could not decide. Empty: it decided.
	FailOpen string
	// Misconfigured reports that the check cannot work in this agent. /health then answers 500.
	Misconfigured bool
}

// Pass returns the result of a check that passed.
func Pass() Result { return Result{Passed: true} }

// Fail returns the result of a check that failed.
func Fail(reason string) Result { return Result{Reason: oneLine(reason)} }

// FailedOpen returns the result of a check that passed because it could not decide.
func FailedOpen(why string) Result { return Result{Passed: true, FailOpen: oneLine(why)} }

// Misconfigured returns the result of a check that cannot work in this agent.
func Misconfigured(reason string) Result { return Result{Reason: oneLine(reason), Misconfigured: true} }

// Check is one check with its parameters.
type Check struct {
	// Name is the name in the query parameter check.
	Name string
	// Identity is the same for checks that do the same: a new Suite continues with the runner of the one before. Empty:
	// it does not.
	Identity string
	// Timeout is how long the check may run before it counts as failed. 0: DefaultTimeout.
	Timeout time.Duration
	// Period makes the check run in the background this often, and requests get the last result. 0: requests run it.
	Period time.Duration
	// OnTimeout returns the result of a run that exceeds its time limit. Default: a failure. It must not block.
	OnTimeout func(reason string) Result
	// Run examines the node. It may exceed its context: see Runner.
	Run func(ctx context.Context) Result
	// Instant returns a result from memory, if there is one, in place of Run. It must not block. Nil: none.
	Instant func() (Result, bool)
}

// Always returns a check whose result is known.
func Always(name string, r Result) Check {
	return Check{Name: name, Instant: func() (Result, bool) { return r, true }}
}

func (c *Check) timedOut(reason string) Result {
	if c.OnTimeout != nil {
		return c.OnTimeout(reason)
	}
	return Fail(reason)
}

// maxReason is the maximum length of a reason in bytes, because a reason may quote the answer of a server.
const maxReason = 512

// oneLine returns a text as a reason: one line, limited, printable.
func oneLine(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
