// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionrules

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

type scene struct {
	*testing.T
	api client.WithWatch
	now *clocktesting.FakePassiveClock
}

func newScene(t *testing.T) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := admissionv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &scene{t, fake.NewClientBuilder().WithScheme(scheme).Build(), clocktesting.NewFakePassiveClock(time.Now())}
}

func (s *scene) writer() *Writer { return &Writer{Client: s.api, Clock: s.now} }

func (s *scene) rules(names ...string) *ruleset.Set {
	var rules []*ruleset.Rule
	for _, name := range names {
		rules = append(rules, s.rule(name))
	}
	return ruleset.NewSet(rules...)
}

func (s *scene) rule(name string) *ruleset.Rule {
	return ruleset.Compile(build.MakeRule(name).UID(name).Created(s.now.Now()).Condition("example.com/C").
		Selector("pool", name).Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule).Obj(), nil, s.now.Now())
}

// expect compares the rules that are stored.
func (s *scene) expect(what string, want ...string) {
	s.Helper()
	object := &admissionv1alpha1.AdmissionRules{}
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: admissionv1alpha1.Name}, object); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
	var got []string
	for _, r := range object.Rules {
		got = append(got, r.Name)
	}
	if !slices.Equal(got, want) {
		s.Errorf("%s: stored %v, want %v", what, got, want)
	}
}

func TestARuleThatStopsHasLeftTheObject(t *testing.T) {
	s := newScene(t)
	w := s.writer()
	w.Publish(t.Context(), s.rules("a", "b"))
	s.expect("at the start", "a", "b")
	w.Publish(t.Context(), s.rules("b"))
	s.expect("when Publish returns", "b")
	w.Publish(t.Context(), s.rules("b", "c"))
	if _, undecided := w.Problem(s.rule("c")); !undecided {
		t.Error("a new rule is in force before it is in the object")
	}
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("a moment later", "b", "c")
}

func TestARuleWhoseEvidenceIsBeingReadStaysInTheObject(t *testing.T) {
	s := newScene(t)
	s.writer().Publish(t.Context(), s.rules("a", "b"))
	next := s.writer() // of the next leader
	next.Publish(t.Context(), ruleset.NewSet(s.rule("a").Freeze(ruleset.Problem{Reason: ruleset.ReasonPending}),
		s.rule("b").Freeze(ruleset.Problem{Reason: "Invalid"})))
	s.expect("at the start", "a")
}

func TestALeaderThatIsDeposedLeavesTheObjectToItsSuccessor(t *testing.T) {
	s := newScene(t)
	before, after := s.writer(), s.writer()
	before.Publish(t.Context(), s.rules("a", "b"))
	after.Publish(t.Context(), s.rules("b"))
	before.Publish(t.Context(), s.rules("a"))
	s.expect("after the former leader has tried", "b")
	s.now.SetTime(s.now.Now().Add(deposed)) // it leads: the other one was something else
	if err := before.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("at last", "a")
}

// A rule can have a selector of more than a megabyte, which etcd would not accept.
func TestRulesWithoutRoomAreLeftOut(t *testing.T) {
	s := newScene(t)
	w, rules := s.writer(), []*ruleset.Rule{s.rule("a")}
	large := build.MakeRule("large").UID("large").Created(s.now.Now().Add(time.Second)).Condition("example.com/C").
		Selector("pool", "large").Taint("example.com/large", "", corev1.TaintEffectNoSchedule)
	for i := range 64 {
		var values []string
		for v := range 256 {
			values = append(values, fmt.Sprintf("%060d", v))
		}
		large.SelectorExpression(fmt.Sprintf("example.com/%d", i), "NotIn", values...)
	}
	rules = append(rules, ruleset.Compile(large.Obj(), nil, s.now.Now()), s.rule("z"))
	w.Publish(t.Context(), ruleset.NewSet(rules...))
	s.expect("without the large rule", "a", "z")
	for i, want := range []string{"", "have no room", ""} {
		problem, undecided := w.Problem(rules[i])
		if undecided || want == "" && problem != "" || !strings.Contains(problem, want) {
			t.Errorf("rule %s: %q, undecided: %t", rules[i].Name, problem, undecided)
		}
	}
}

func TestARuleThatIsNotWrittenSaysWhy(t *testing.T) {
	s := newScene(t)
	s.api = interceptor.NewClient(s.api, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewNotFound(schema.GroupResource{}, "")
		}})
	w := s.writer()
	w.Publish(t.Context(), s.rules("a"))
	if problem, undecided := w.Problem(s.rule("a")); undecided || !strings.Contains(problem, "install the CRD") {
		t.Errorf("%q, undecided: %t", problem, undecided)
	}
}

func TestAnObjectThatIsChangedOrDeletedIsWrittenAgain(t *testing.T) {
	s := newScene(t)
	w := s.writer()
	w.Publish(t.Context(), s.rules("a"))
	object := &admissionv1alpha1.AdmissionRules{}
	if err := s.api.Get(t.Context(), client.ObjectKey{Name: admissionv1alpha1.Name}, object); err != nil {
		t.Fatal(err)
	}
	object.Rules = nil
	if err := s.api.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("after an edit", "a")
	if err := s.api.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("after a deletion", "a")
}
