// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome is a result and how long it took: 0 if it was in memory.
type Outcome struct {
	Result
	Duration time.Duration
	// TimedOut reports whether the check failed because it exceeded its time limit.
	TimedOut bool
}

// Runner runs one check for everyone who asks: requests to /health, requests of the agent-check, the check's own
// background loop, and a probe's worker. Nothing else runs checks.
//
// At most one run is in progress. A run can hang forever: stat and statfs on a dead disk or NFS server ignore contexts.
//
//	who                     waits for                          at most
//	a request, a worker     the run in progress (Do)           its own context, or the check's Timeout and a twentieth
//	  while a run hangs     nothing: the answer is "late"      -
//	  with Instant          nothing: the check's memory        -
//	  with Period           nothing, after the first result    -
//	the background loop     like a worker                      -
//	the run                 what the check looks at            no limit. Its context ends after Timeout
//
// After its limit a run is late: its waiters get Check.Late (by default a failure), and so does everyone who comes
// before the run has returned. No second run starts beside it. When it returns, the next caller starts a new one.
type Runner struct {
	check Check
	last  atomic.Pointer[Outcome] // of a background check

	mu      sync.Mutex
	current *run
}

// run is one run in progress.
type run struct {
	began    time.Time
	answered chan struct{} // closed when outcome is set: when the run returns, or at its limit
	outcome  Outcome
	late     bool // the limit has passed and the run has not returned
}

// NewRunner returns a runner of the check.
func NewRunner(c Check) *Runner {
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	return &Runner{check: c}
}

// Name is the check's name.
func (r *Runner) Name() string { return r.check.Name }

// Do returns what the check finds. A background check answers with its last result; other checks run. When ctx ends
// first, that is a failure for this caller only.
func (r *Runner) Do(ctx context.Context) Outcome {
	if o, ok := r.Instant(); ok {
		return o
	}
	return r.wait(ctx, r.join())
}

// Instant returns the result if it is in memory.
func (r *Runner) Instant() (Outcome, bool) {
	if r.check.Period > 0 {
		if o := r.last.Load(); o != nil {
			return Outcome{Result: o.Result}, true
		}
	}
	if r.check.Instant != nil {
		if result, ok := r.check.Instant(); ok {
			return Outcome{Result: result}, true
		}
	}
	return Outcome{}, false
}

func (r *Runner) wait(ctx context.Context, current *run) Outcome {
	select {
	case <-current.answered:
		return current.outcome
	case <-ctx.Done():
		return Outcome{Result: Fail("the caller did not wait for the result"), Duration: time.Since(current.began)}
	}
}

// join returns the run in progress, or starts one. In place of a run that hangs it returns one that is answered
// already.
func (r *Runner) join() *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.current; c != nil {
		if !c.late {
			return c
		}
		reason := fmt.Sprintf("still hanging after %s", time.Since(c.began).Round(time.Second))
		stuck := &run{began: c.began, answered: make(chan struct{})}
		stuck.outcome = Outcome{Result: r.check.late(reason), TimedOut: true}
		close(stuck.answered)
		return stuck
	}
	c := &run{began: time.Now(), answered: make(chan struct{})}
	r.current = c
	go r.execute(c)
	return c
}

// execute runs the check until it returns, and answers at its limit at the latest.
func (r *Runner) execute(c *run) {
	ctx, cancel := context.WithTimeout(context.Background(), r.check.Timeout)
	defer cancel()
	// The limit is a little later than the context's, so that a check that obeys its context says what it waited for.
	limit := time.AfterFunc(r.check.Timeout+r.check.Timeout/20, func() {
		late := Outcome{Result: r.check.late(fmt.Sprintf("timed out after %s", r.check.Timeout)), TimedOut: true}
		r.answer(c, late, true)
	})
	result := r.check.Run(ctx)
	limit.Stop()
	r.answer(c, Outcome{Result: result, TimedOut: !result.Passed && ctx.Err() != nil}, false)
	r.mu.Lock()
	r.current = nil
	r.mu.Unlock()
}

// answer sets the outcome of a run and releases its waiters. The first answer counts: a second one comes from a run
// that returns after its limit.
func (r *Runner) answer(c *run, o Outcome, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-c.answered:
		return
	default:
	}
	c.late = late
	o.Duration = time.Since(c.began)
	c.outcome = o
	close(c.answered)
}

// Background runs a background check with its period until ctx ends; for other checks it returns at once. The first run
// begins without delay. Later runs are spread by up to a tenth of the period, so that agents do not run in step.
func (r *Runner) Background(ctx context.Context) {
	if r.check.Period <= 0 {
		return
	}
	for {
		if o := r.wait(ctx, r.join()); ctx.Err() == nil {
			r.last.Store(&o)
		}
		Sleep(ctx, Spread(r.check.Period))
		if ctx.Err() != nil {
			return
		}
	}
}

// Spread returns a period that is up to a tenth longer, so that agents do not run in step.
func Spread(period time.Duration) time.Duration {
	return period + time.Duration(rand.Int64N(int64(period)/10+1)) //nolint:gosec // spreads load, keeps no secret
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
