// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
	"github.com/nodegate/nodegate/test/build"
)

// late is a reconciler of two nodes in service that are not ready, under one rule. The API server answers patches of
// taints and records after a while.
type late struct {
	*Reconciler
	clock *clocktesting.FakePassiveClock
	rule  *ruleset.Rule
	nodes []*corev1.Node
}

func newLate(r *build.RuleWrapper, after time.Duration, answer error) *late {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := &late{clock: clocktesting.NewFakePassiveClock(now), rule: ruleset.Compile(r.UID("r").Selector(pool, "a").
		Condition(cni).Taint(taintKey, "pending", corev1.TaintEffectNoSchedule).Obj(), nil, now)}
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&corev1.Node{})
	for _, name := range []string{"a", "b"} {
		node := build.MakeNode(name).UID(name).Created(now.Add(-time.Hour)).Label(pool, "a").
			Condition(cni, corev1.ConditionFalse, now.Add(-time.Minute)).Annotation(l.rule.RecordKey(),
			`{"rule":"r","released":"2026-01-02T02:10:00Z"}`).Obj()
		l.nodes = append(l.nodes, node)
		api.WithObjects(node.DeepCopy())
	}
	api.WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object,
		p client.Patch, opts ...client.PatchOption) error {
		if l.step(after); answer != nil {
			return answer
		}
		return c.Patch(ctx, obj, p, opts...)
	}})
	of := api.Build()
	l.Reconciler = &Reconciler{Client: of, Live: of, Fleet: fleet.New(&world{}, l.clock.Now), Evidence: noEvidence(),
		Recorder: &events.FakeRecorder{}, Clock: l.clock}
	l.Fleet.SetRules(ruleset.NewSet(l.rule), l.nodes, now)
	return l
}

func (l *late) step(by time.Duration) { l.clock.SetTime(l.clock.Now().Add(by)) }

// TestAWriteThatFailsLateKeepsItsPlaceFromThenOn: the API server may still write.
func TestAWriteThatFailsLateKeepsItsPlaceFromThenOn(t *testing.T) {
	l := newLate(build.MakeRule("r").MaxUnavailable("1"), time.Minute, apierrors.NewTimeoutError("no answer", 0))
	for i, kept := range []bool{true, false} {
		if i == 0 {
			if _, err := l.Reconcile(t.Context(), request("a")); err == nil {
				t.Fatal("the write has succeeded")
			}
		} else {
			l.step(time.Minute)
		}
		l.Fleet.FreePlaces(l.rule.UID)
		if why := l.Fleet.Reserve(l.rule.UID, "b", limit.Request{Since: l.clock.Now()}); (why != "") != kept {
			t.Errorf("after %d minutes: %q", i, why)
		}
	}
}

// TestAClaimWithoutRoomUsesNothing, also if the write for another rule fails: the claim was not part of it.
func TestAClaimWithoutRoomUsesNothing(t *testing.T) {
	for name, answer := range map[string]error{"written": nil, "no answer": apierrors.NewTimeoutError("no answer", 0)} {
		l := newLate(build.MakeRule("r").MaxUnavailable("1"), 0, answer)
		l.fill(t)
		other := ruleset.Compile(build.MakeRule("other").UID("other").Selector(pool, "a").Condition(cni).
			Taint("example.com/other", "", corev1.TaintEffectNoSchedule).Obj(), nil, l.clock.Now())
		l.Fleet.SetRules(ruleset.NewSet(l.rule, other), l.nodes, l.clock.Now())
		if _, err := l.Reconcile(t.Context(), request("a")); (err == nil) != (answer == nil) {
			t.Fatal(name, err)
		}
		if why := l.Fleet.Reserve(l.rule.UID, "b", limit.Request{Since: l.clock.Now()}); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
}

// TestAClaimWithoutRoomWaitsForNoTurn of a rate: it would lose the turn and wait again, and each time, the rule's
// status would be written. When there is room, it waits for its turn.
func TestAClaimWithoutRoomWaitsForNoTurn(t *testing.T) {
	l := newLate(build.MakeRule("r").Rate(1, 600), 0, nil)
	turns := func(when, reason string, want int) {
		l.reconcile(t)
		m, _ := l.Fleet.Material(l.rule.UID)
		i := slices.IndexFunc(m.Evaluations, func(e v1alpha1.NodeEvaluation) bool { return e.NodeName == "a" })
		o, _ := l.Fleet.Order(l.rule, nil)
		if got := m.Evaluations[i].Reason; got != reason || o.Claims != want {
			t.Errorf("%s: the reason is %s, and %d turns are ordered", when, got, o.Claims)
		}
	}
	l.fill(t)
	for range 2 {
		turns("no room", state.ReasonFull, 0)
		l.step(31 * time.Second)
	}
	node := l.node(t)
	delete(node.Annotations, filler)
	if err := l.Client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	turns("room", state.ReasonOverBudget, 1)
	l.fill(t)
	turns("no room any more", state.ReasonFull, 0)
}

// TestAConditionIsFalseInItsTime under a rate, also if the write of the taint before it took long.
func TestAConditionIsFalseInItsTime(t *testing.T) {
	for after, want := range map[time.Duration]corev1.ConditionStatus{
		29 * time.Second: corev1.ConditionFalse,
		31 * time.Second: corev1.ConditionUnknown,
	} {
		l := newLate(build.MakeRule("r").Publish(verdictType).Rate(1, 60), after, nil)
		l.reconcile(t)
		// The second node waits, so that the rate allows one condition: the first node comes before it.
		l.Fleet.Reserve(l.rule.UID, "b", limit.Request{Use: limit.Marks, Since: l.clock.Now()})
		o, _ := l.Fleet.Order(l.rule, nil)
		l.Fleet.Issue(l.rule, &o)
		l.reconcile(t)
		if l.node(t).Spec.Taints == nil {
			t.Error("the node is not held")
		}
		if c := nodeview.Published(l.node(t), verdictType); c == nil || c.Status != want {
			t.Errorf("after %s: %v, want %s", after, c, want)
		}
	}
}

const filler = "example.com/filler"

// fill lets another client fill the annotations of node a.
func (l *late) fill(t *testing.T) {
	t.Helper()
	node := l.node(t)
	filled := len(filler)
	for key, value := range node.Annotations {
		filled += len(key) + len(value)
	}
	node.Annotations[filler] = strings.Repeat("x", taints.MaxAnnotations-filled)
	if err := l.Client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

func (l *late) reconcile(t *testing.T) {
	t.Helper()
	for again := true; again; {
		result, err := l.Reconcile(t.Context(), request("a"))
		if again = result.RequeueAfter == conflictDelay; err != nil {
			t.Fatal(err)
		}
	}
}

func (l *late) node(t *testing.T) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	if err := l.Live.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil {
		t.Fatal(err)
	}
	return node
}
