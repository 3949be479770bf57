// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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

type slowInformer struct{ synced, stopped bool }

func (s slowInformers) Follow(_ context.Context, w *sources.Watch) sources.Informer {
	i := &slowInformer{}
	s[w.Options.LabelSelector] = i
	return i
}

func (i *slowInformer) Synced() bool        { return i.synced }
func (i *slowInformer) Failed() string      { return "" }
func (i *slowInformer) ByNode(string) []any { return nil }
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

func waitingRule(name, selector, required string) *ruleset.Rule {
	r := build.MakeRule(name).UID("u-"+name).Selector("pool", "a").Created(time.Unix(1e9, 0)).
		Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule)
	if selector == "" {
		r.After(required)
	} else {
		r.Evidence(v1alpha1.Requirement{Name: "x", Pods: &v1alpha1.PodsRequirement{Namespace: "kube-system",
			Selector: v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": v1alpha1.LabelValue(selector)}}}})
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
