// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/test/build"
)

// slowInformers start watches that are synced when a test says so.
type slowInformers map[string]*slowInformer

type slowInformer struct {
	synced, stopped bool
	pods            []any
}

func (s slowInformers) Follow(_ context.Context, w *sources.Watch) sources.Informer {
	i := &slowInformer{}
	s[w.Options.LabelSelector] = i
	return i
}

func (i *slowInformer) Synced() bool        { return i.synced }
func (i *slowInformer) Failed() string      { return "" }
func (i *slowInformer) ByNode(string) []any { return i.pods }
func (i *slowInformer) Stop()               { i.stopped = true }

// noEvidence is evidence that has been read: there is none.
func noEvidence() *sources.Sources { return sources.New(readInformers{}, unheard{}) }

type readInformers struct{}

func (readInformers) Follow(context.Context, *sources.Watch) sources.Informer {
	return &slowInformer{synced: true}
}

type unheard struct{}

func (unheard) RuleChanged(string)     {}
func (unheard) Enqueue([]string)       {}
func (unheard) NodesChanged(...string) {}
func (unheard) AvailabilityChanged()   {}

func podsOf(app v1alpha1.LabelValue) v1alpha1.Requirement {
	return v1alpha1.Requirement{Name: "x", Pods: &v1alpha1.PodsRequirement{Namespace: "kube-system",
		Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": app}}}}
}

func waitingRule(name, selector, required string) *ruleset.Rule {
	r := build.MakeRule(name).UID("u-"+name).Selector("pool", "a").Created(time.Unix(1e9, 0)).
		Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule)
	if selector == "" {
		r.After(required)
	} else {
		r.Evidence(podsOf(v1alpha1.LabelValue(selector)))
	}
	return ruleset.Compile(r.Obj(), nil, time.Unix(1e9, 0))
}

// TestANodeThatJoinsWhileRulesChangeIsReconciledAgain: a worker may reconcile it with the former rules, although the
// list of nodes for the new ones was read before.
func TestANodeThatJoinsWhileRulesChangeIsReconciledAgain(t *testing.T) {
	s := begins(t, build.MakeRule("joins").Condition(pieceA))
	s.r.Fleet = fleet.New(unheard{}, time.Now)
	joined := s.node
	s.node, s.listed = nil, func() {
		s.node = joined
		s.at(0)
	}
	names, err := s.r.SetRules(t.Context(), ruleset.NewSet(s.rule))
	if err != nil || !slices.Equal(names, []string{"n"}) || len(s.node.Spec.Taints) > 0 {
		t.Errorf("reconciled again: %v, %v; taints %v", names, err, s.node.Spec.Taints)
	}
	if names, err = s.r.SetRules(t.Context(), ruleset.NewSet(s.rule)); err != nil || len(names) > 0 {
		t.Errorf("without a change: %v, %v", names, err)
	}
}

func TestEvidenceThatIsNotReadYetIsNotMissing(t *testing.T) {
	informers := slowInformers{}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Fleet: fleet.New(unheard{}, time.Now),
		Clock: testclock.NewFakePassiveClock(time.Unix(1e9, 0))}
	r.Evidence = sources.New(informers, unheard{})
	modes := func(set *ruleset.Set) (pods, dependent ruleset.Mode) {
		t.Helper()
		if _, err := r.SetRules(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		return r.Fleet.Rules().Named("pods").Mode, r.Fleet.Rules().Named("dependent").Mode
	}
	dependent := waitingRule("dependent", "", "pods")
	set := ruleset.NewSet(waitingRule("pods", "one", ""), dependent)

	if pods, after := modes(set); pods != ruleset.Frozen || after != ruleset.Frozen {
		t.Errorf("at the start: %s, and the rule that requires it %s", pods, after)
	}
	informers["app=one"].synced = true
	if pods, after := modes(set); pods != ruleset.Enforced || after != ruleset.Enforced {
		t.Errorf("read: %s, and the rule that requires it %s", pods, after)
	}
	former, edited := r.Fleet.Rules().Named("pods"), waitingRule("pods", "two", "")
	set = ruleset.NewSet(edited, dependent)
	if pods, after := modes(set); pods != ruleset.Enforced || after != ruleset.Enforced ||
		r.Fleet.Rules().Named("pods") != former {
		t.Errorf("edited: %s, and the rule that requires it %s", pods, after)
	}
	if informers["app=one"].stopped {
		t.Error("the former evidence is not read any more")
	}
	informers["app=two"].synced = true
	modes(set)
	if r.Fleet.Rules().Named("pods") != edited || !informers["app=one"].stopped {
		t.Error("the edited rule is not in force, or the former evidence is still read")
	}
}

// edited is a cluster whose rule requires other pods since its last edit. They have not been read yet, so that the
// former rule is in force.
func edited(t *testing.T, r *build.RuleWrapper) (s *starting, one, two *slowInformer) {
	t.Helper()
	informers := slowInformers{}
	s = begins(t, r.Evidence(podsOf("one")))
	s.r.Evidence = sources.New(informers, unheard{})
	require := func(app v1alpha1.LabelValue) *slowInformer {
		s.edit(func(r *build.RuleWrapper) { r.NodeReadinessRule.Spec.Requirements[0] = podsOf(app) })
		return informers["app="+string(app)]
	}
	one = require("one")
	one.synced = true
	require("one")
	two = require("two")
	if former := s.r.Fleet.Rules().Named(r.Name); former.Mode != ruleset.Enforced || former == s.rule {
		t.Fatalf("in force is %v", former)
	}
	return s, one, two
}

// replaceRules puts the edited rule in force.
func (s *starting) replaceRules(read *slowInformer) {
	s.t.Helper()
	read.synced = true
	_, err := s.r.SetRules(s.t.Context(), ruleset.NewSet(s.rule))
	if in := s.r.Fleet.Rules().Rule(s.rule.UID); err != nil || in != s.rule {
		s.t.Fatalf("%v, in force is %v", err, in)
	}
}

// TestFormerEvidenceIsNotMissingWhileRulesChange: the watch of a former rule stops while a node is reconciled by it.
func TestFormerEvidenceIsNotMissingWhileRulesChange(t *testing.T) {
	s, one, two := edited(t, build.MakeRule("changes"))
	running := []any{build.MakePod("kube-system", "x").Node("n").Condition(corev1.PodReady, "", s.begin).Obj()}
	one.pods, two.pods = running, running
	if s.at(30); len(s.node.Spec.Taints) > 0 {
		t.Fatal("the node is not ready")
	}
	s.r.Evidence.AbsentSince("n")("ds", s.begin)
	s.r.Settle = func(context.Context) error {
		s.replaceRules(two)
		s.r.Settle = nil
		return nil
	}
	result, err := s.r.Reconcile(t.Context(), request("n"))
	if !one.stopped || err != nil || len(s.node.Spec.Taints) > 0 || result.RequeueAfter != conflictDelay {
		t.Errorf("taints %v, reconciled again after %s, %v", s.node.Spec.Taints, result.RequeueAfter, err)
	}
	if since := s.r.Evidence.AbsentSince("n")("ds", s.clock.Now()); !since.Equal(s.begin) {
		t.Errorf("a pod is absent since %s", since)
	}
	if s.at(31); len(s.node.Spec.Taints) > 0 {
		t.Error("the node is not ready under the edited rule")
	}
}

// TestNoNodeIsReplacedForFormerEvidence whose watch stops after the rules were read.
func TestNoNodeIsReplacedForFormerEvidence(t *testing.T) {
	s, one, two := edited(t, build.MakeRule("replaces").Replace(60, 20, ""))
	former := s.r.Fleet.Rules().Rule(s.rule.UID)
	s.at(0)
	if s.at(60); !s.r.Expired(t.Context(), s.node, former) {
		t.Fatal("the node is not held for too long")
	}
	one.pods = []any{build.MakePod("kube-system", "x").Node("n").Condition(corev1.PodReady, "", s.begin).Obj()}
	if s.r.Expired(t.Context(), s.node, former) {
		t.Error("replaced, although its pod is ready")
	}
	s.r.Clock = &sudden{s.clock, func() { s.replaceRules(two) }}
	if s.r.Expired(t.Context(), s.node, former) || !one.stopped {
		t.Error("replaced for evidence that is not read any more")
	}
}

// sudden is a clock that lets something happen when it is first read.
type sudden struct {
	*testclock.FakePassiveClock
	happens func()
}

func (c *sudden) Now() time.Time {
	if f := c.happens; f != nil {
		c.happens = nil
		f()
	}
	return c.FakePassiveClock.Now()
}

// TestFormerEvidenceIsReadUntilOtherRulesAreInForce: putting them in force may fail.
func TestFormerEvidenceIsReadUntilOtherRulesAreInForce(t *testing.T) {
	s, one, two := edited(t, build.MakeRule("fails"))
	two.synced, s.unlisted = true, apierrors.NewTooManyRequests("busy", 1)
	set := ruleset.NewSet(s.rule, waitingRule("new", "", "fails"))
	if _, err := s.r.SetRules(t.Context(), set); err == nil || one.stopped {
		t.Errorf("%v, stopped is %t", err, one.stopped)
	}
	s.unlisted = nil
	if _, err := s.r.SetRules(t.Context(), set); err != nil || !one.stopped {
		t.Errorf("%v, stopped is %t", err, one.stopped)
	}
}
