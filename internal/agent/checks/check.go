// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"time"
)

// DefaultTimeout is for how long a check may run, but for OKDRouter's, where nothing else is said.
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
	// NameHTTPPrefix begins the names of HTTP checks, whose rest users choose.
	NameHTTPPrefix = "http:"
	// NameRules is the verdict of all rules with health together, and NameRulePrefix and its name that of one.
	NameRules      = "rules"
	NameRulePrefix = "rule:"
)

// Result is what a check has found.
type Result struct {
	// Passed is whether the node passes.
	Passed bool
	// Reason says why not, in a few words without a line break. It is empty if the check has passed.
	Reason string
	// Code is the reason of the node condition that a probe publishes. Empty means the reason of all probes.
	Code string
	// FailOpen, where not empty, says why the check could not judge and has therefore passed.
	FailOpen string
	// Misconfigured is true where the check cannot work as the agent is set up. /health then answers 500.
	Misconfigured bool
}

// Pass is the result of a check that has passed.
func Pass() Result { return Result{Passed: true} }

// Fail is the result of a check that has failed.
func Fail(reason string) Result { return Result{Reason: oneLine(reason)} }

// FailedOpen is the result of a check that could not judge, and says why.
func FailedOpen(why string) Result { return Result{Passed: true, FailOpen: oneLine(why)} }

// Misconfigured is the result of a check that cannot work as the agent is set up.
func Misconfigured(reason string) Result { return Result{Reason: oneLine(reason), Misconfigured: true} }

// Check is one check with its parameters.
type Check struct {
	// Name is what check= calls it.
	Name string
	// Timeout is for how long it may run before it counts as failed. 0 means DefaultTimeout.
	Timeout time.Duration
	// Period, where not 0, makes it run in the background that often; requests get the last result.
	Period time.Duration
	// Late is the result of a run that overruns its time limit: by default a failure. It must not block.
	Late func(reason string) Result
	// Run looks at the node. It may overrun its context: Runner says who waits for it.
	Run func(ctx context.Context) Result
	// Instant, if set, is asked before Run. It answers from memory or not at all, and must not block.
	Instant func() (Result, bool)
}

func (c *Check) late(reason string) Result {
	if c.Late != nil {
		return c.Late(reason)
	}
	return Fail(reason)
}

// maxReason bounds a reason, in bytes: it may quote what others have answered.
const maxReason = 512

// oneLine makes a text fit for a reason: one line, bounded, printable.
func oneLine(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	clean := make([]rune, 0, len(s))
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			r = ' '
		}
		clean = append(clean, r)
	}
	return string(clean)
}
