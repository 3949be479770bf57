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

// Outcome is a result and how long it took to get it: 0 where it was at hand.
type Outcome struct {
	Result
	Duration time.Duration
}

// Runner runs one check for all who ask. At most one run is under way at a time; who asks meanwhile shares it.
type Runner struct {
	check Check
	last  atomic.Pointer[Outcome] // of a background check

	mu      sync.Mutex
	current *run
}

// run is one run that is under way.
type run struct {
	began    time.Time
	answered chan struct{} // closed when outcome is set: by the end of the run, or by its time limit
	outcome  Outcome
	over     bool // the time limit has passed; whoever comes now is not made to wait for it again
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

// Do returns what the check finds. A background check answers with its last result; the others run, for as long as their
// time limit at most. When ctx ends first, that is a failure for this caller alone.
func (r *Runner) Do(ctx context.Context) Outcome {
	if o, ok := r.Instant(); ok {
		return o
	}
	return r.wait(ctx, r.join())
}

// Instant returns the result if it is at hand.
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
		return Outcome{Result: Fail("nobody waited for the result"), Duration: time.Since(current.began)}
	}
}

// join returns the run that is under way, or starts one.
func (r *Runner) join() *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.current; c != nil {
		if !c.over {
			return c
		}
		// What hangs is left alone until it comes back: another run would hang beside it.
		stuck := &run{began: c.began, answered: make(chan struct{})}
		stuck.outcome = Outcome{Result: r.check.late(fmt.Sprintf("still hanging after %s", time.Since(c.began).Round(time.Second)))}
		close(stuck.answered)
		return stuck
	}
	c := &run{began: time.Now(), answered: make(chan struct{})}
	r.current = c
	go r.execute(c)
	return c
}

// execute runs the check to its end, and answers at its time limit at the latest.
func (r *Runner) execute(c *run) {
	ctx, cancel := context.WithTimeout(context.Background(), r.check.Timeout)
	defer cancel()
	// A little later than the context, so that what ends in time says itself what it has waited for.
	limit := time.AfterFunc(r.check.Timeout+r.check.Timeout/20, func() {
		r.answer(c, r.check.late(fmt.Sprintf("timed out after %s", r.check.Timeout)), true)
	})
	result := r.check.Run(ctx)
	limit.Stop()
	r.answer(c, result, false)
	r.mu.Lock()
	r.current = nil
	r.mu.Unlock()
}

// answer sets the outcome, unless there is one.
func (r *Runner) answer(c *run, result Result, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-c.answered:
		return
	default:
	}
	c.over = over
	c.outcome = Outcome{Result: result, Duration: time.Since(c.began)}
	close(c.answered)
}

// Background runs a background check with its period until ctx ends; for others it returns at once. The first run begins
// without delay; further ones are spread by up to a tenth of the period, so that many agents do not march in step.
func (r *Runner) Background(ctx context.Context) {
	if r.check.Period <= 0 {
		return
	}
	for {
		if o := r.wait(ctx, r.join()); ctx.Err() == nil {
			r.last.Store(&o)
		}
		delay := r.check.Period + time.Duration(rand.Int64N(int64(r.check.Period)/10+1)) //nolint:gosec // spreads load, keeps no secret
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
	}
}
