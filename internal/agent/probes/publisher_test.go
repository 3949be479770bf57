// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/rest/fake"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/build"
)

// still is a source with a node that nothing changes. With unknown, the API server has not answered yet.
type still struct {
	node    *corev1.Node
	unknown *atomic.Bool
}

func (s still) Known() bool            { return s.unknown == nil || !s.unknown.Load() }
func (s still) Object() *corev1.Node   { return s.node }
func (s still) Unavailable() error     { return nil }
func (s still) Client() rest.Interface { return nil }

// says returns what a publisher would write of a condition, after all its workers have come to rest.
func (p *Publisher) says(name string) Finding {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.running[name]
	if w == nil || w.want == nil {
		return Finding{}
	}
	return Finding{OK: w.want.status == corev1.ConditionTrue, Reason: w.want.reason, Message: w.want.message}
}

func newPublisher(node *corev1.Node) *Publisher {
	return New(Options{Node: "n", Source: still{node: node}, Log: slog.New(slog.DiscardHandler),
		Metrics: NewMetrics(prometheus.NewRegistry())})
}

// refusing is a source whose API server refuses all writes.
type refusing struct {
	still
	tries atomic.Int32
}

func (r *refusing) Client() rest.Interface {
	return &fake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(), GroupVersion: corev1.SchemeGroupVersion,
		Client: fake.CreateHTTPClient(func(*http.Request) (*http.Response, error) {
			r.tries.Add(1)
			body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`
			return &http.Response{StatusCode: http.StatusUnprocessableEntity, Body: io.NopCloser(strings.NewReader(body)),
				Header: http.Header{"Content-Type": {"application/json"}}}, nil
		}),
	}
}

// TestARefusedWriteIsTriedMoreAndMoreSlowly although the probe runs every second.
func TestARefusedWriteIsTriedMoreAndMoreSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &refusing{still: still{node: build.MakeNode("n").Obj()}}
		p := New(Options{Node: "n", Source: source, Log: slog.New(slog.DiscardHandler),
			Metrics: NewMetrics(prometheus.NewRegistry())})
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx)
		p.Set(ctx, []Probe{{ConditionType: "example.com/A", Identity: "a", Period: time.Second, SuccessThreshold: 1,
			FailureThreshold: 1, Check: checks.Check{Timeout: time.Second,
				Run: func(context.Context) checks.Result { return checks.Result{Passed: true} }}}}, false)
		time.Sleep(time.Hour)
		if n := source.tries.Load(); n < 10 || n > 70 {
			t.Errorf("%d tries in an hour", n)
		}
		stop()
		time.Sleep(time.Hour)
	})
}

// TestTwoAgentsWithOneName: each changes the condition back, and says so once.
func TestTwoAgentsWithOneName(t *testing.T) {
	var logged strings.Builder
	p := newPublisher(build.MakeNode("n").Condition("A", "False", time.Now()).
		Condition("B", "True", time.Now()).Obj())
	p.Log = slog.New(slog.NewTextHandler(&logged, nil))
	if p.due(); logged.Len() > 0 {
		t.Errorf("before this agent has written: %s", &logged)
	}
	for _, name := range []string{"A", "B", "C"} {
		p.last[name] = corev1.ConditionTrue
	}
	p.due()
	p.due()
	if got := logged.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "condition=A") {
		t.Errorf("the log: %s", got)
	}
}

func TestAProbeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		free := make(chan struct{})
		runs := 0
		probe := Probe{
			ConditionType: "A", Identity: "1", Period: 30 * time.Second, Fixed: true, SuccessThreshold: 1, FailureThreshold: 3,
			Check: checks.Check{Timeout: 10 * time.Second, Run: func(context.Context) checks.Result {
				if runs++; runs > 1 {
					<-free
				}
				return checks.Pass()
			}},
		}
		p := newPublisher(build.MakeNode("n").Obj())
		p.Set(ctx, []Probe{probe}, true)
		good := Finding{OK: true, Reason: ReasonSucceeded, Message: "the probe succeeds"}
		expect := func(when string, want Finding) {
			t.Helper()
			if diff := cmp.Diff(want, p.says("A")); diff != "" {
				t.Errorf("%s: -want +got:\n%s", when, diff)
			}
		}
		expect("at first", good)
		time.Sleep(30*time.Second + 10500*time.Millisecond) // its time is over
		expect("after one failure", good)
		time.Sleep(30 * time.Second)
		expect("after two", good)
		time.Sleep(30 * time.Second)
		expect("after three", Finding{Reason: "ProbeTimedOut", Message: "the probe had no result after 10s"})
		if runs != 2 {
			t.Errorf("%d runs: one hangs, and none may start beside it", runs)
		}

		edited := probe
		edited.Identity, edited.Check.Run = "2", func(context.Context) checks.Result { return checks.Pass() }
		p.Set(ctx, []Probe{edited}, true)
		expect("edited", good)

		close(free)
		cancel()
		synctest.Wait()
	})
}

// TestARestartKeepsTheThreshold: the condition on the node says how many failures it takes, so the count begins when it
// is known.
func TestARestartKeepsTheThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := build.MakeNode("n").Obj()
		node.Status.Conditions = []corev1.NodeCondition{condition("A", "True", ReasonSucceeded, t0, t0)}
		source := still{node: nil, unknown: &atomic.Bool{}}
		source.unknown.Store(true)
		p := newPublisher(nil)
		p.Source = source
		p.Set(t.Context(), []Probe{{ConditionType: "A", Period: time.Second, Fixed: true, SuccessThreshold: 1,
			FailureThreshold: 3,
			Check:            checks.Check{Run: func(context.Context) checks.Result { return checks.Fail("no") }}}}, true)
		time.Sleep(time.Minute + time.Second/2)
		if f := p.says("A"); f != (Finding{}) {
			t.Errorf("before the first answer: %+v", f)
		}
		p.mu.Lock()
		source.node = node
		source.unknown.Store(false)
		p.Source = source
		p.due() // as the loop does after the first answer
		p.mu.Unlock()
		if f := p.says("A"); f != (Finding{}) {
			t.Errorf("after one failure: %+v", f)
		}
		time.Sleep(2 * time.Second)
		if f := p.says("A"); f.Reason != ReasonFailed {
			t.Errorf("after three failures: %+v", f)
		}
	})
}

// TestAProbeThatThisAgentDoesNotKnow: the condition is the one that an agent of the operator's version wrote.
func TestAProbeThatThisAgentDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := build.MakeNode("n").Obj()
		node.Status.Conditions = []corev1.NodeCondition{condition("A", "True", ReasonSucceeded, t0, t0)}
		wanted, _ := ForRules(checks.Environment{}, nil, []config.Rule{{Probes: []v1alpha1.Probe{{ConditionType: "A"}}}})
		p := newPublisher(node)
		p.Set(t.Context(), wanted, true)
		synctest.Wait()
		if write, remove := p.due(); len(write) > 0 || len(remove) > 0 {
			t.Errorf("writes %v, removes %v", write, remove)
		}
	})
}

// TestTheConditionOfAnotherReporterStays: the API server refuses its removal, and with it all that is in the patch.
func TestTheConditionOfAnotherReporterStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := build.MakeNode("n").Obj()
		node.Status.Conditions = []corev1.NodeCondition{
			condition("A", "True", "CalicoIsUp", t0, t0), condition("B", "True", ReasonSucceeded, t0, t0),
		}
		fails := checks.Check{Run: func(context.Context) checks.Result { return checks.Fail("no") }}
		p := newPublisher(node)
		p.Set(t.Context(), []Probe{
			{ConditionType: "A", Check: fails, Period: time.Hour, FailureThreshold: 3},
			{ConditionType: "B", Check: fails, Period: time.Hour, FailureThreshold: 3},
		}, true)
		synctest.Wait()
		p.Set(t.Context(), nil, true)
		if write, remove := p.due(); len(write) > 0 || !slices.Equal(remove, []string{"B"}) {
			t.Errorf("writes %v, removes %v", write, remove)
		}
	})
}

// accepting is a source whose API server accepts each patch and answers with the node as it is then.
type accepting struct {
	still
	patches []int // how many conditions each of them changes
}

func (a *accepting) Client() rest.Interface {
	return &fake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(), GroupVersion: corev1.SchemeGroupVersion,
		Client: fake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
			patch := &corev1.Node{}
			if err := json.NewDecoder(r.Body).Decode(patch); err != nil {
				return nil, err
			}
			a.patches = append(a.patches, len(patch.Status.Conditions))
			for _, c := range patch.Status.Conditions {
				if before := find(a.node.Status.Conditions, string(c.Type)); before != nil {
					*before = c
				} else {
					a.node.Status.Conditions = append(a.node.Status.Conditions, c)
				}
			}
			body, err := json.Marshal(a.node)
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)),
				Header: http.Header{"Content-Type": {"application/json"}}}, err
		}),
	}
}

// TestManyConditions: the policy nodegate-agent refuses a patch that changes more than 50 conditions.
func TestManyConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &accepting{still: still{node: build.MakeNode("n").Obj()}}
		source.node.APIVersion, source.node.Kind = "v1", "Node"
		p := New(Options{Node: "n", Source: source, Log: slog.New(slog.DiscardHandler),
			Metrics: NewMetrics(prometheus.NewRegistry())})
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx)
		probes := make([]Probe, 2*MaxChanges+1)
		for i := range probes {
			probes[i] = Probe{ConditionType: fmt.Sprintf("example.com/A%d", i), Period: time.Hour, SuccessThreshold: 1,
				Check: checks.Always("", checks.Pass())}
		}
		p.Set(ctx, probes, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]int{MaxChanges, MaxChanges, 1}, source.patches); diff != "" {
			t.Errorf("conditions in each patch, -want +got:\n%s", diff)
		}
		stop()
	})
}
