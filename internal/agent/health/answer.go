// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nodegate/nodegate/internal/agent/checks"
)

// Answer is the body of an answer. Its fields are those of the harmony node readiness endpoint, and fail_open.
type Answer struct {
	// Status is ready or not-ready.
	Status string `json:"status"`
	// Checks are the results, in the order of the request.
	Checks []CheckAnswer `json:"checks"`
	// TotalMillis is how long the answer took.
	TotalMillis int64 `json:"total_duration_ms"`
	// FailOpen reports whether a check passed only because it could not decide.
	FailOpen bool `json:"fail_open,omitempty"`

	misconfigured bool
	failed        bool // a check has failed
	drains        bool // the node is in maintenance, or the agent shuts down or cannot judge yet
	drainStatus   int
	open          []string // names of the checks that failed open
}

// CheckAnswer is the result of one check.
type CheckAnswer struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Reason says why the check failed.
	Reason string `json:"reason,omitempty"`
	// FailOpen says why the check passed although it could not decide.
	FailOpen       string `json:"fail_open,omitempty"`
	DurationMillis int64  `json:"duration_ms"`
}

// Values of Answer.Status.
const (
	StatusReady    = "ready"
	StatusNotReady = "not-ready"
)

// Code returns the HTTP status of the answer.
func (a *Answer) Code() int {
	switch {
	case a.onlyDrains():
		return a.drainStatus
	case a.misconfigured:
		return http.StatusInternalServerError
	case a.Status == StatusReady:
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// Text returns one of four fixed texts, for load balancers that compare text.
func (a *Answer) Text() string {
	switch {
	case a.misconfigured:
		return "error"
	case a.Status != StatusReady:
		return "down"
	case a.FailOpen:
		return "up fail-open"
	}
	return "up"
}

// onlyDrains reports whether all checks pass, and only a pseudo-check fails.
func (a *Answer) onlyDrains() bool { return a.drains && !a.failed }

// FirstReason returns the first failed check with its reason.
func (a *Answer) FirstReason() string {
	for _, c := range a.Checks {
		if !c.Passed {
			return c.Name + ": " + c.Reason
		}
	}
	return ""
}

// collect runs the checks, in parallel if they take time, and returns the answer. It takes as long as the slowest one,
// also for a client that has closed its half of the connection, and may still read the answer.
func (h *Handler) collect(suite *checks.Suite, names []string) *Answer {
	began := time.Now()
	outcomes := make([]checks.Outcome, len(names))
	groups := make([]*checks.Group, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		groups[i] = suite.Group(name)
		if groups[i] == nil {
			outcomes[i].Result = checks.Fail("Unknown check: " + name)
			continue
		}
		var ok bool
		if outcomes[i], ok = groups[i].Instant(); !ok {
			all.Go(func() { outcomes[i] = groups[i].Do(context.Background()) })
		}
	}
	all.Wait()
	a := &Answer{Status: StatusReady, Checks: make([]CheckAnswer, 0, len(names)+1), drainStatus: h.DrainStatus}
	for i, o := range outcomes {
		if groups[i] != nil {
			h.Metrics.observe(groups[i].Name, o) // the requested name may be anything
		}
		a.add(names[i], o)
	}
	a.TotalMillis = time.Since(began).Milliseconds()
	return a
}

func (a *Answer) add(name string, o checks.Outcome) {
	a.Checks = append(a.Checks, CheckAnswer{
		Name: name, Passed: o.Passed, Reason: o.Reason, FailOpen: o.FailOpen, DurationMillis: o.Duration.Milliseconds(),
	})
	if !o.Passed {
		a.Status, a.failed = StatusNotReady, true
	}
	if o.Misconfigured {
		a.misconfigured = true
	}
	if o.FailOpen != "" {
		a.FailOpen = true
		a.open = append(a.open, name)
	}
}

// drain adds a pseudo-check, which fails.
func (a *Answer) drain(name, why string) {
	a.Checks = append(a.Checks, CheckAnswer{Name: name, Reason: why})
	a.Status, a.drains = StatusNotReady, true
}

// parseNames reads the values of check=: names separated by commas, each once, in the order of the request.
func parseNames(values []string, limit int) (names []string, ok bool) {
	seen := map[string]bool{}
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			name = strings.TrimSpace(name)
			if name == "" || seen[name] {
				continue
			}
			if len(names) == limit {
				return nil, false
			}
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, true
}
