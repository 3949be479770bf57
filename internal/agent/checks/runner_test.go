// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestRunnerSharesARunAndTakesNoLongerThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		r := NewRunner(Check{Name: "slow", Timeout: time.Second, Run: func(ctx context.Context) Result {
			runs.Add(1)
			<-ctx.Done()
			return Fail("waited in vain")
		}})
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if diff := cmp.Diff(Fail("waited in vain"), r.Do(t.Context()).Result); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
		all.Wait()
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("took %s", d)
		}
	})
}

func TestRunnerLeavesAHangingRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		free := make(chan struct{})
		r := NewRunner(Check{Name: "hangs", Timeout: time.Second, Run: func(context.Context) Result {
			runs.Add(1)
			<-free
			return Pass()
		}})
		for _, want := range []Result{Fail("timed out after 1s"), Fail("still hanging after 1s")} {
			if diff := cmp.Diff(want, r.Do(t.Context()).Result); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		}
		close(free)
		synctest.Wait()
		if o := r.Do(t.Context()); !o.Passed || runs.Load() != 2 {
			t.Errorf("once it came back: %+v after %d runs", o, runs.Load())
		}
	})
}

func TestRunnerDoesNotKeepWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRunner(Check{Timeout: time.Minute, Run: func(ctx context.Context) Result { <-ctx.Done(); return Pass() }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if o := r.Do(ctx); o.Passed || o.Duration != time.Second {
			t.Errorf("got %+v", o)
		}
		time.Sleep(time.Minute) // the run itself goes on to its end
	})
}

func TestBackgroundCheckAnswersFromItsLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		var broken atomic.Bool
		r := NewRunner(Check{Timeout: time.Second, Period: 10 * time.Second, Run: func(context.Context) Result {
			runs.Add(1)
			time.Sleep(100 * time.Millisecond)
			if broken.Load() {
				return Fail("broken")
			}
			return Pass()
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var end sync.WaitGroup
		end.Go(func() { r.Background(ctx) })
		if o := r.Do(ctx); !o.Passed || o.Duration != 100*time.Millisecond {
			t.Errorf("before the first result: %+v", o)
		}
		synctest.Wait()
		for range 50 {
			if o := r.Do(ctx); !o.Passed || o.Duration != 0 {
				t.Errorf("got %+v", o)
			}
		}
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs for all these requests", n)
		}
		broken.Store(true)
		time.Sleep(12 * time.Second)
		if o := r.Do(ctx); o.Passed {
			t.Error("the next run is not seen")
		}
		cancel()
		end.Wait()
	})
}

func TestReasonsAreOneBoundedLine(t *testing.T) {
	r := Fail("a\nb\r\x00\x7f\u2028" + strings.Repeat("é", maxReason))
	if len(r.Reason) > 3*maxReason {
		t.Errorf("%d bytes", len(r.Reason))
	}
	if strings.ContainsFunc(r.Reason, func(c rune) bool { return unicode.IsControl(c) || c == '\u2028' }) {
		t.Errorf("got %q", r.Reason)
	}
}
