// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
)

// refusing lets a thousand nodes fail, and tries them for some time as the queue does. It returns how many tries were
// made in each second, and when the last node was written. From a time on, writes succeed.
func refusing(t *testing.T, with error, refusedUntil, seconds int) (tries []int, last time.Duration) {
	t.Helper()
	const nodes, step = 1000, 10 * time.Millisecond
	start := time.Unix(1, 0)
	clock := testclock.NewFakePassiveClock(start)
	r := &Reconciler{Clock: clock}
	queue := r.RateLimiter()
	failed := func(node string) {
		r.retries.failed(node, &retry{write: "w", failure: failure{rejected: rejected(with)}, err: with}, clock.Now())
	}
	due := map[string]time.Time{}
	for i := range nodes {
		name := fmt.Sprint("n", i)
		failed(name)
		due[name] = start
	}
	tries = make([]int, seconds)
	for now := start; now.Before(start.Add(time.Duration(seconds) * time.Second)); now = now.Add(step) {
		clock.SetTime(now)
		second := int(now.Sub(start) / time.Second)
		for i := range nodes {
			name := fmt.Sprint("n", i)
			if at, waits := due[name]; !waits || at.After(now) {
				continue
			}
			if r.retries.wait(name, "w", time.Time{}, now) == nil {
				tries[second]++
				if second >= refusedUntil {
					last = now.Sub(start)
					delete(due, name)
					for _, other := range r.retries.done(name, now) {
						due[other] = now
					}
					continue
				}
				failed(name)
			}
			due[name] = now.Add(queue.When(request(name)))
		}
	}
	if len(due) > 0 && seconds > refusedUntil {
		t.Errorf("%d nodes were not written after the cause was gone", len(due))
	}
	return tries, last
}

func TestRetriesOfAllNodesAreBounded(t *testing.T) {
	for name, with := range map[string]error{
		"refused":   apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("a policy")),
		"no answer": errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries, last := refusing(t, with, 120, 480)
			for second, n := range tries[:120] {
				if n > int(time.Second/retryInterval)+1 {
					t.Errorf("%d tries in second %d", n, second)
				}
			}
			if last > 130*time.Second {
				t.Errorf("the last node was written %s after the start, the cause was gone after 120 s", last)
			}
		})
	}
}

// TestOnlyTheAnswersOfTheAPIServerCount: after the answer of a proxy, the API server may still write.
func TestOnlyTheAnswersOfTheAPIServerCount(t *testing.T) {
	status := func(code int, reason string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	}
	for name, c := range map[string]struct {
		code           int
		body           string
		rejected, gone bool
	}{
		"a refusal":              {403, status(403, "Forbidden"), true, false},
		"no such node":           {404, status(404, "NotFound"), true, true},
		"a timeout":              {408, status(408, "Timeout"), false, false},
		"a refusal of a proxy":   {403, "<html>forbidden</html>", false, false},
		"a 404 of a proxy":       {404, "404 page not found", false, false},
		"a proxy loses patience": {499, "", false, false},
		"an error":               {500, status(500, "InternalError"), false, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if strings.HasPrefix(c.body, "{") {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(c.code)
			_, _ = w.Write([]byte(c.body))
		}))
		api := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
		_, err := api.CoreV1().Nodes().Patch(t.Context(), "n", types.JSONPatchType, []byte("[]"), metav1.PatchOptions{})
		server.Close()
		if rejected(err) != c.rejected || gone(err) != c.gone {
			t.Errorf("%s: rejected %t, gone %t: %v", name, rejected(err), gone(err), err)
		}
	}
}

func TestRefusedWritesDoNotDelayTheRetriesOfOthers(t *testing.T) {
	now := time.Unix(1, 0)
	r := &retries{}
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("a policy"))
	for i := range 3000 {
		name := fmt.Sprint("n", i)
		r.failed(name, &retry{write: "w", failure: failure{rejected: true}, err: refused}, now)
		r.wait(name, "w", time.Time{}, now.Add(firstRetry))
	}
	now = now.Add(time.Second)
	r.failed("other", &retry{write: "w", err: errors.New("no answer")}, now)
	if last := r.wait("other", "w", time.Time{}, now.Add(firstRetry)); last != nil {
		t.Errorf("the node waits until %s", last.at)
	}
}

func TestRetryComesWithTheNextDeadline(t *testing.T) {
	now := time.Unix(1, 0)
	r := &Reconciler{Clock: testclock.NewFakePassiveClock(now)}
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", nil)
	for range 20 {
		r.retries.failed("n", &retry{write: "w", failure: failure{rejected: true}, err: refused,
			recheck: now.Add(90 * time.Second)}, now)
	}
	if got := r.RateLimiter().When(request("n")); got != 90*time.Second {
		t.Errorf("the node is looked at again after %s", got)
	}
	r.retries.wait("n", "w", now.Add(time.Minute), now)
	if got := r.RateLimiter().When(request("n")); got != time.Minute {
		t.Errorf("after a decision with an earlier deadline, the node is looked at again after %s", got)
	}
	r.retries.forget("n", now)
	r.retries.failed("n", &retry{write: "w", failure: failure{rejected: true}, err: refused}, now)
	if got := r.RateLimiter().When(request("n")); got != firstRetry {
		t.Errorf("the first retry comes after %s", got)
	}
}

// TestNodesAreRetriedAfterTheClockIsSetBack, also those that fail only then.
func TestNodesAreRetriedAfterTheClockIsSetBack(t *testing.T) {
	for name, with := range map[string]error{
		"refused":   apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("a policy")),
		"no answer": errors.New("connection refused"),
	} {
		now := time.Unix(10000, 0)
		clock := testclock.NewFakePassiveClock(now)
		r := &Reconciler{Clock: clock}
		failed := func(node string) {
			r.retries.failed(node, &retry{write: "w", failure: failure{rejected: rejected(with)}, err: with}, now)
		}
		failed("waits")
		failed("has a turn")
		r.retries.wait("waits", "w", time.Time{}, now.Add(firstRetry)) // it takes the first turn
		r.retries.wait("has a turn", "w", time.Time{}, now.Add(firstRetry))
		failed("waits")

		back := now.Add(-time.Hour)
		now = back
		failed("fails now")
		for _, node := range []string{"fails now", "has a turn", "waits"} {
			now = back
			clock.SetTime(now)
			for try := 0; try == 0 || r.retries.wait(node, "w", time.Time{}, now) != nil; try++ {
				now = now.Add(r.RateLimiter().When(request(node)))
				clock.SetTime(now)
				if after := now.Sub(back); after > lastRetry {
					t.Errorf("%s: the node that %s is retried after %s", name, node, after)
					break
				}
			}
		}
	}
}

// TestANodeThatBecomesReadyWithoutATaintIsWrittenAtOnce: only the records of rules without a taint change.
func TestANodeThatBecomesReadyWithoutATaintIsWrittenAtOnce(t *testing.T) {
	now := time.Unix(1, 0)
	rule := ruleset.Compile(build.MakeRule("r").UID("u").Created(now.Add(-time.Hour)).Selector("pool", "a").
		Condition("A").Untainted().Health("rules").Obj(), nil, now)
	obj := build.MakeNode("n").Created(now).Label("pool", "a").Obj()
	planned := func(status corev1.ConditionStatus, at time.Time) string {
		n := build.WrapNode(obj).Condition("A", status, now).Obj()
		decisions := gate.DecideNode(&gate.NodeInput{Node: n, Swept: n, Rules: ruleset.NewSet(rule),
			Evidence: &evidence.Gathered{}, Now: at}).Decisions
		outcome := taints.Plan(n, taints.Swept{Node: n}, decisions, at)
		if outcome.Patch == nil {
			t.Fatal("nothing to write")
		}
		return unwritten(n, decisions, outcome.Changes)
	}
	r := &retries{}
	r.failed("n", &retry{write: planned("False", now), failure: failure{rejected: true}, err: errors.New("refused")}, now)
	if r.wait("n", planned("False", now.Add(time.Millisecond)), time.Time{}, now) == nil {
		t.Error("the same write does not wait")
	}
	if r.wait("n", planned("True", now), time.Time{}, now) != nil {
		t.Error("a node that has become ready waits for the retry of another write")
	}
}

// TestAWriteIsRepeatedAfterTheClockIsSetBack also if another client had undone it before that. Otherwise it would wait
// until the clock shows the former time again.
func TestAWriteIsRepeatedAfterTheClockIsSetBack(t *testing.T) {
	o, start := &ownWrites{}, time.Unix(1000, 0)
	o.wrote("n1", "added", start)
	o.wrote("n1", "added", start)
	if wait := o.wait("n1", "added", start); wait != firstUndone {
		t.Errorf("the write waits for %s, want %s", wait, firstUndone)
	}
	back := start.Add(-400 * time.Second)
	if wait := o.wait("n1", "added", back); wait != 0 {
		t.Errorf("after the clock is set back, the write waits for %s", wait)
	}
	o.wrote("n1", "added", back)
	if wait := o.wait("n1", "added", back); wait != 2*firstUndone {
		t.Errorf("the next write waits for %s, want %s", wait, 2*firstUndone)
	}
}
