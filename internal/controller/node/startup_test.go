// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// starting is a cluster of one node and one rule on a virtual clock. It is the API server, too.
type starting struct {
	client.Client
	t     *testing.T
	begin time.Time
	clock *clocktesting.FakePassiveClock
	node  *corev1.Node // nil: deleted
	obj   *build.RuleWrapper
	rule  *ruleset.Rule
	r     *Reconciler
	// lost: the answer to the next patch is lost.
	lost bool
	// unlisted is why pods and rules cannot be listed.
	unlisted error
	// pods are those that can be listed.
	pods []corev1.Pod
	// listed is called after the next list.
	listed func()
}

func (s *starting) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if s.node == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n")
	}
	if out, ok := obj.(*corev1.Node); ok {
		s.node.DeepCopyInto(out)
	}
	return nil
}

func (s *starting) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	out, ok := list.(*corev1.NodeList)
	if !ok && s.unlisted != nil {
		return s.unlisted
	}
	if ok && s.node != nil {
		out.Items = []corev1.Node{*s.node}
	}
	if pods, ok := list.(*corev1.PodList); ok {
		pods.Items = slices.Clone(s.pods)
	}
	if f := s.listed; f != nil {
		s.listed = nil
		f()
	}
	return nil
}

func (s *starting) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	raw, err := json.Marshal(s.node)
	if err != nil {
		return err
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	p, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return err
	}
	if raw, err = p.Apply(raw); err != nil {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil)
	}
	s.node = &corev1.Node{}
	if err := json.Unmarshal(raw, s.node); err != nil {
		return err
	}
	if s.lost {
		s.lost = false
		return apierrors.NewTimeoutError("the answer is lost", 1)
	}
	out, ok := obj.(*corev1.Node)
	if !ok {
		return fmt.Errorf("a patch of %T", obj)
	}
	s.node.DeepCopyInto(out)
	return nil
}

// begins creates the node and, two hours before it, the rule.
func begins(t *testing.T, r *build.RuleWrapper) *starting {
	t.Helper()
	s := &starting{t: t, begin: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s.clock = clocktesting.NewFakePassiveClock(s.begin)
	s.obj = r.UID(r.Name).Created(s.begin.Add(-2*time.Hour)).Selector(pool, "a").
		Taint("readiness.k8s.io/"+r.Name, "", corev1.TaintEffectNoSchedule)
	s.lead()
	s.at(-3600) // the leader has led for an hour
	s.node = build.MakeNode("n").UID("n").Created(s.begin).Label(pool, "a").Obj()
	t.Cleanup(func() { fleet.ForgetRule(r.Name) })
	return s
}

// lead makes another process the leader.
func (s *starting) lead() {
	s.r = &Reconciler{Client: s, Live: s, Fleet: fleet.New(&world{}, s.clock.Now), Evidence: noEvidence(),
		Recorder: &events.FakeRecorder{}, Clock: s.clock, StartupObjective: 5 * time.Minute}
	s.edit(func(*build.RuleWrapper) {})
}

func (s *starting) edit(change func(*build.RuleWrapper)) {
	change(s.obj)
	s.rule = ruleset.Compile(s.obj.Generation(s.obj.NodeReadinessRule.Generation+1).Obj(), s.rule, s.clock.Now())
	if _, err := s.r.SetRules(s.t.Context(), ruleset.NewSet(s.rule)); err != nil {
		s.t.Fatal(err)
	}
}

// at lets the time pass until so many seconds after the node's creation, and looks at the node once or twice.
func (s *starting) at(second int, changes ...func(*build.NodeWrapper)) {
	now := s.begin.Add(time.Duration(second) * time.Second)
	s.clock.SetTime(now)
	for _, change := range changes {
		w := build.WrapNode(s.node)
		change(w)
		s.node = w.Obj()
	}
	for range 2 {
		_, _ = s.r.Reconcile(s.t.Context(), request("n")) // an error is a lost answer, and is tried again
	}
}

// is sets a condition now.
func (s *starting) is(condition string, status corev1.ConditionStatus, second int) func(*build.NodeWrapper) {
	return func(w *build.NodeWrapper) {
		w.Condition(condition, status, s.begin.Add(time.Duration(second)*time.Second))
	}
}

// sums are the non-zero values of the metrics about starts: metric, then label, then value.
func (s *starting) sums() map[string]float64 {
	out := map[string]float64{}
	for name, c := range map[string]prometheus.Collector{"startups": startupResults, "met": startupObjective,
		"blocked": blockedSeconds, "sole": soleBlockerSeconds, "last": lastBlocker, "duration": startupDuration,
		"hold": bootstrapHold} {
		ch := make(chan prometheus.Metric, 1000)
		c.Collect(ch)
		close(ch)
		for m := range ch {
			d := &dto.Metric{}
			if err := m.Write(d); err != nil {
				s.t.Fatal(err)
			}
			label, mine := "", false
			for _, l := range d.GetLabel() {
				if l.GetName() == "rule" {
					mine = l.GetValue() == s.rule.Name
				} else {
					label = " " + l.GetValue()
				}
			}
			v := d.GetCounter().GetValue() + d.GetHistogram().GetSampleSum()
			if mine && v != 0 {
				out[name+label] = v
			}
		}
	}
	return out
}

const pieceA, pieceB = "example.com/A", "example.com/B"

// TestWhatAStartWasSpentOn scripts delays on a virtual clock: every sum matches.
func TestWhatAStartWasSpentOn(t *testing.T) {
	two := func() *build.RuleWrapper { return build.MakeRule("start").Condition(pieceA).Condition(pieceB) }
	type sums = map[string]float64
	for name, c := range map[string]struct {
		rule  *build.RuleWrapper
		story func(*starting)
		want  sums
	}{
		"one after the other, then readySeconds": {two().ReadySeconds(10), func(s *starting) {
			s.at(0)
			s.at(20, s.is(pieceA, "True", 20))
			s.at(50, s.is(pieceB, "True", 50))
			s.at(60)
			s.at(90)
		}, sums{"startups ready": 1, "met true": 1, "duration": 60, "blocked " + pieceA: 20,
			"blocked " + pieceB: 50, "sole " + pieceB: 30, "blocked stabilization": 10,
			"sole stabilization": 10, "last " + pieceB: 1}},
		"seen late, attributed by the times of the conditions": {two(), func(s *starting) {
			s.at(3)
			s.at(60, s.is(pieceA, "True", 40), s.is(pieceB, "True", 25))
		}, sums{"startups ready": 1, "met true": 1, "duration": 60, "blocked " + pieceA: 40,
			"blocked " + pieceB: 25, "sole " + pieceA: 15, "last " + pieceA: 1}},
		"one is lost again": {two(), func(s *starting) {
			s.at(0)
			s.at(10, s.is(pieceA, "True", 10))
			s.at(15, s.is(pieceA, "False", 15))
			s.at(30, s.is(pieceB, "True", 30))
			s.at(50, s.is(pieceA, "True", 50))
		}, sums{"startups ready": 1, "met true": 1, "duration": 50, "blocked " + pieceA: 45,
			"blocked " + pieceB: 30, "sole " + pieceA: 20, "sole " + pieceB: 5,
			"last " + pieceA: 1}},
		"minHoldSeconds outlast the evidence": {two().MinHoldSeconds(100), func(s *starting) {
			s.at(0)
			s.at(40, s.is(pieceA, "True", 40), s.is(pieceB, "True", 40))
			s.at(100)
		}, sums{"startups ready": 1, "met true": 1, "duration": 100, "blocked " + pieceA: 40,
			"blocked " + pieceB: 40, "blocked stabilization": 60, "sole stabilization": 60,
			"last stabilization": 1}},
		"anyOf has no blockers": {two().AnyOf(), func(s *starting) {
			s.at(0)
			s.at(20, s.is(pieceA, "True", 20))
		}, sums{"startups ready": 1, "met true": 1, "duration": 20}},
		"ready too late": {two(), func(s *starting) {
			s.at(0, s.is(pieceA, "True", 0))
			s.at(301)
			s.at(400, s.is(pieceB, "True", 400))
		}, sums{"startups ready": 1, "met false": 1, "duration": 400, "blocked " + pieceB: 400,
			"sole " + pieceB: 400, "last " + pieceB: 1}},
		"timed out": {two().Timeout(120, 0, v1alpha1.TimeoutActionRelease), func(s *starting) {
			s.at(0)
			s.at(20, s.is(pieceA, "True", 20))
			s.at(120)
			s.at(200, s.is(pieceB, "True", 200))
		}, sums{"startups timed_out": 1, "met false": 1, "blocked " + pieceA: 20,
			"blocked " + pieceB: 120, "sole " + pieceB: 100}},
		"deleted": {two(), func(s *starting) {
			s.at(0)
			s.at(20, s.is(pieceA, "True", 20))
			s.node = nil
			s.at(70)
		}, sums{"startups deleted": 1, "met false": 1, "blocked " + pieceA: 20,
			"blocked " + pieceB: 70, "sole " + pieceB: 50}},
		"deleted after the objective counts as missed once": {two(), func(s *starting) {
			s.at(0)
			s.at(300)
			s.node = nil
			s.at(310)
		}, sums{"startups deleted": 1, "met false": 1, "blocked " + pieceA: 310,
			"blocked " + pieceB: 310}},
		"overridden": {two(), func(s *starting) {
			s.at(0)
			s.at(20, func(w *build.NodeWrapper) { w.Annotation(v1alpha1.OverrideAnnotation, "Release") })
			s.at(40, func(w *build.NodeWrapper) { w.Unannotate(v1alpha1.OverrideAnnotation) })
			s.at(60, s.is(pieceA, "True", 60), s.is(pieceB, "True", 60))
		}, sums{"startups excluded": 1}},
		"not selected any more": {two(), func(s *starting) {
			s.at(0)
			s.at(20, func(w *build.NodeWrapper) { w.Label(pool, "b") })
		}, sums{"startups excluded": 1}},
		"whether it came in service cannot be read at first": {two().ExistingNodes(v1alpha1.ExistingNodesIdle),
			func(s *starting) {
				s.at(0)
				s.unlisted = apierrors.NewTooManyRequests("busy", 1) // and the claim has not reached the API server
				s.at(700, func(w *build.NodeWrapper) {
					w.Unannotate(v1alpha1.RecordAnnotationPrefix + "start").Untaint("readiness.k8s.io/start")
				})
				s.unlisted = nil
				s.at(730)
			}, sums{"startups excluded": 1}},
		"another leader goes on, by the times of the conditions": {two(), func(s *starting) {
			s.at(0)
			s.at(20, s.is(pieceA, "True", 20))
			s.lead()
			s.at(30)
			s.at(50, s.is(pieceB, "True", 50))
			s.lead()
			s.at(60)
		}, sums{"startups ready": 1, "met true": 1, "duration": 50, "blocked " + pieceA: 20,
			"blocked " + pieceB: 50, "sole " + pieceB: 30, "last " + pieceB: 1}},
		"another leader does not count the missed objective again": {two(), func(s *starting) {
			s.at(0)
			s.at(310)
			s.lead()
			s.at(320)
			s.at(400, s.is(pieceA, "True", 400), s.is(pieceB, "True", 400))
		}, sums{"startups ready": 1, "met false": 1, "duration": 400, "blocked " + pieceA: 400,
			"blocked " + pieceB: 400, "last " + pieceA: 1}},
		"another leader may have counted the deletion": {two(), func(s *starting) {
			s.at(0)
			s.lead()
			s.at(10)
			s.node = nil
			s.at(60)
		}, sums{}},
		"the answer to the release is lost, and so is the sample": {two(), func(s *starting) {
			s.at(0)
			s.lost = true
			s.at(20, s.is(pieceA, "True", 20), s.is(pieceB, "True", 20))
			s.at(30)
		}, sums{}},
		"bootstrap-only, tainted by the operator": {two().BootstrapOnly(), func(s *starting) {
			s.at(2)
			s.at(30, s.is(pieceA, "True", 30), s.is(pieceB, "True", 30))
		}, sums{"startups ready": 1, "met true": 1, "duration": 30, "hold controller": 28, "blocked " + pieceA: 30,
			"blocked " + pieceB: 30, "last " + pieceA: 1}},
		"bootstrap-only, tainted by kubelet": {two().BootstrapOnly(), func(s *starting) {
			s.at(5, func(w *build.NodeWrapper) { w.Taint("readiness.k8s.io/start", "", corev1.TaintEffectNoSchedule) })
			s.at(30, s.is(pieceA, "True", 30), s.is(pieceB, "True", 30))
		}, sums{"startups ready": 1, "met true": 1, "duration": 30, "hold adopted": 25, "blocked " + pieceA: 30,
			"blocked " + pieceB: 30, "last " + pieceA: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begins(t, c.rule)
			c.story(s)
			if diff := cmp.Diff(c.want, s.sums()); diff != "" {
				t.Error(diff)
			}
			if s.node != nil {
				s.at(10000) // nothing comes later
				if diff := cmp.Diff(c.want, s.sums()); diff != "" {
					t.Error(diff)
				}
			}
			if n := len(s.r.startups.nodes); n != 0 {
				t.Errorf("%d nodes are kept", n)
			}
		})
	}
}

// TestSeriesEndWithTheirRules: the number of series is bounded by the rules.
func TestSeriesEndWithTheirRules(t *testing.T) {
	s := begins(t, build.MakeRule("series").Condition(pieceA).Condition(pieceB))
	s.at(0)
	s.at(20, s.is(pieceA, "True", 20), s.is(pieceB, "True", 20))
	s.edit(func(r *build.RuleWrapper) { r.Spec.Conditions = r.Spec.Conditions[:1] })
	for what := range s.sums() {
		if what == fmt.Sprintf("blocked %s", pieceB) {
			t.Errorf("after the edit: %s", what)
		}
	}
	s.at(25)
	fleet.ForgetRule("series")
	if diff := cmp.Diff(map[string]float64{}, s.sums()); diff != "" {
		t.Error(diff)
	}
}
