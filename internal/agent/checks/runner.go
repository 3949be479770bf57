// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Outcome is a result and how long it took: 0 if it was in memory.
type Outcome struct {
	Result
	Duration time.Duration
	// TimedOut reports whether the check failed because it exceeded its time limit.
	TimedOut bool
}

// Runner runs one check for everyone who asks. Nothing else runs checks: this is the one way from a check to /health
// and to a condition. Who waits for whom on it, and how long:
//
//	who                                      waits for                      until
//	a request to /health or the agent-check  the slowest run of its checks  the run's limit
//	a probe's worker                         the run                        the run's limit, or the probe is replaced
//	the loop of a check with Period          the run                        the run's limit, or the rules change
//	the run                                  what the check looks at        it returns: nothing can end it
//	the loop that writes conditions          the API server, not a probe    10 s for each request
//
// A request does not wait if a result is in memory: the last result of a check with Period, or that of Check.Instant.
//
// At most one run is in progress. It can hang forever, because stat and statfs on a dead disk or NFS server ignore
// contexts. Its limits:
//
//	after                    what happens
//	Check.Timeout            the run's context ends; a check that obeys it returns and says what it waited for
//	Timeout and a twentieth  who waits gets Check.Late, by default a failure; so does everyone who asks from now on,
//	                         and no second run starts beside this one
//	the run returns          the next one who asks starts a run
//
// Check.Timeout is the timeoutSeconds of the rule, or by default:
//
//	1 s     checks
//	1.5 s   checks of the Node object: the watcher of the node waits for the API server for 1 s
//	5 s     okd_router_1936, and filesystem_ro with the write test
//	10 s    probes
//	11 s    the probe of the reporter: its HTTP client waits for 10 s
type Runner struct {
	check Check
	last  atomic.Pointer[Outcome] // of a background check

	mu      sync.Mutex
	current *run
}

// run is one run in progress. If it has an answer but is still in progress, it hangs.
type run struct {
	began    time.Time
	answered chan struct{} // closed when outcome is set: when the run returns, or at its limit
	outcome  Outcome
}

// NewRunner returns a runner of the check.
func NewRunner(c Check) *Runner {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	return &Runner{check: c}
}

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

// join returns the run in progress, or starts one. In place of a run that hangs, it returns one with an answer.
func (r *Runner) join() *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.current
	if c == nil {
		c = &run{began: time.Now(), answered: make(chan struct{})}
		r.current = c
		go r.execute(c)
		return c
	}
	select {
	case <-c.answered:
		reason := fmt.Sprintf("still hanging after %s", time.Since(c.began).Round(time.Second))
		return &run{answered: c.answered, outcome: Outcome{Result: r.check.timedOut(reason), TimedOut: true}}
	default:
		return c
	}
}

// execute runs the check until it returns, and answers at its limit at the latest.
func (r *Runner) execute(c *run) {
	ctx, cancel := context.WithTimeout(context.Background(), r.check.Timeout)
	defer cancel()
	limit := time.AfterFunc(r.check.Timeout+r.check.Timeout/20, func() {
		result := r.check.timedOut(fmt.Sprintf("timed out after %s", r.check.Timeout))
		r.answer(c, Outcome{Result: result, TimedOut: true}, false)
	})
	result := r.check.Run(ctx)
	limit.Stop()
	r.answer(c, Outcome{Result: result, TimedOut: !result.Passed && ctx.Err() != nil}, true)
}

// answer sets the outcome of a run and releases its waiters. Of two answers, only the first one counts: a late run
// has one before it returns.
func (r *Runner) answer(c *run, o Outcome, returned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-c.answered:
	default:
		o.Duration = time.Since(c.began)
		c.outcome = o
		close(c.answered)
	}
	if returned {
		r.current = nil
	}
}

// Background runs a background check with its period until ctx ends; for other checks it returns at once. The first run
// begins without delay.
func (r *Runner) Background(ctx context.Context) {
	if r.check.Period <= 0 {
		return
	}
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if o := r.wait(ctx, r.join()); ctx.Err() == nil {
			r.last.Store(&o)
		}
	}, r.check.Period, Jitter, true)
}

// Jitter is the part of a period by which runs are spread, so that agents do not run in step.
const Jitter = 0.1
