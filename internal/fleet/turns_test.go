// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

// turning is a scene of nodes under a rate of one node in ten minutes, and a limit of two nodes.
type turning struct {
	*scene
	use limit.Use
}

func newTurning(t *testing.T, use limit.Use, edit func(*build.RuleWrapper)) *turning {
	r := build.MakeRule("net").UID("u1").Created(now).Selector("pool", "a").Condition("example.com/Ready").
		LimitPer("", "2").Rate(1, 600)
	edit(r)
	return &turning{newScene(t, ruleset.Compile(r.Obj(), nil, now), 3), use}
}

func tainting(r *build.RuleWrapper) { r.Taint("example.com/net", "", corev1.TaintEffectNoSchedule) }

func (s *turning) asks(i int) bool {
	return s.Reserve(s.rule.UID, s.nodes[i].Name, limit.Request{Use: s.use, Since: now}) == ""
}

// begins gives node 0 the one turn.
func (s *turning) begins() {
	s.Helper()
	early := s.asks(0)
	o, _ := s.Order(s.rule, nil)
	s.Issue(s.rule, &o)
	s.wakes("the turn is in the status", 0)
	if early || !s.asks(0) {
		s.Errorf("node 0 has its turn before the status says so: %t", early)
	}
}

func TestATurnUnderARateGoesToAnotherNodeIfItWasNotUsed(t *testing.T) {
	health := func(r *build.RuleWrapper) { r.Untainted().Health("rules") }
	publishes := func(r *build.RuleWrapper) { r.Publish(verdict) }
	claims, marks := limit.Claims, limit.Marks
	full := func(e *Entry) { e.Warning = AnnotationsFull }
	exempt := func(e *Entry) {
		full(e)
		e.State, e.Reason, e.NoRoom = v1alpha1.NodeStateExempt, state.ReasonFull, true
	}
	named := func(edit func(*Entry)) func(*Entry) {
		return func(e *Entry) { edit(e); e.Current.Record.Published = verdict }
	}
	refused := func(e *Entry) { e.Unwritten = true }
	failed := func(e *Entry) { e.State, e.Unwritten = v1alpha1.NodeStateFailed, true }
	unpublished := func(e *Entry) { failed(e); e.PublishProblem = "forbidden" }
	timeout := func(edit func(*Entry)) func(*Entry) {
		return func(e *Entry) { edit(e); e.State, e.Reason = v1alpha1.NodeStateFailed, "PatchFailed" }
	}
	ready := func(e *Entry) { e.State = v1alpha1.NodeStateReady }
	for name, c := range map[string]struct {
		rule func(*build.RuleWrapper)
		use  limit.Use
		used bool
		edit func(*Entry)
		free bool
	}{
		"the taint is there":    {tainting, claims, true, func(*Entry) {}, false},
		"the taint was refused": {tainting, claims, false, failed, true},
		"the taint is there, another rule's condition was refused": {tainting, claims, true, refused, false},
		"a new node's taint is there, and no record":               {tainting, claims, false, full, false},
		"the record of a taint has no room":                        {tainting, claims, false, exempt, true},
		"so, and the patch of another rule has no answer":          {tainting, claims, false, timeout(exempt), true},
		"the record was refused":                                   {health, claims, false, failed, true},
		"the record has no room":                                   {health, claims, false, exempt, true},
		"so, and no condition can be published": {publishes, claims, false,
			func(e *Entry) { exempt(e); unpublished(e) }, true},
		"the record was shortened":                                 {health, claims, true, full, false},
		"the node became ready":                                    {health, claims, false, ready, false},
		"the record is there, the condition was refused":           {publishes, claims, true, unpublished, false},
		"the condition is there":                                   {publishes, marks, true, func(*Entry) {}, false},
		"the condition is there, another rule's was refused":       {publishes, marks, true, refused, false},
		"the condition was refused":                                {publishes, marks, false, unpublished, true},
		"the record before the condition was refused":              {publishes, marks, false, failed, true},
		"the condition has no room in the record":                  {publishes, marks, false, full, true},
		"the condition has none, and a patch has no answer":        {publishes, marks, false, timeout(full), true},
		"the condition has room in the record, the claim has none": {publishes, marks, false, named(exempt), true},
	} {
		s := newTurning(t, c.use, c.rule)
		s.begins()
		e := s.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		e.Current.Claimed, e.Current.MarkedFalse = c.used && c.use == claims, c.used && c.use == marks
		c.edit(&e)
		s.records(0, e)
		if got := s.asks(1); got != c.free {
			t.Errorf("%s: another node may be held: %t", name, got)
		}
	}
}

func TestATurnUnderARateIsForAShortTime(t *testing.T) {
	s := newTurning(t, limit.Claims, tainting)
	s.begins()
	for after, want := range map[time.Duration]bool{30 * time.Second: true, 31 * time.Second: false} {
		s.server = now.Add(after)
		if got := s.InTime(s.rule.UID, s.nodes[0].Name, limit.Claims); got != want {
			t.Errorf("after %s: may be held: %t", after, got)
		}
	}
}

func TestTheTimesOfClaimsStayWhileARuleIsNotEnforced(t *testing.T) {
	for name, change := range map[string]func(*ruleset.Rule) (known, asked *ruleset.Rule){
		"frozen": func(r *ruleset.Rule) (known, asked *ruleset.Rule) {
			frozen := r.Freeze(ruleset.Problem{Reason: "EvidenceUnavailable"})
			return frozen, frozen
		},
		"suspended since its nodes were counted": func(r *ruleset.Rule) (known, asked *ruleset.Rule) {
			return r.Freeze(ruleset.Problem{Reason: ruleset.ReasonSuspended}), r
		},
		"edited since its nodes were counted": func(r *ruleset.Rule) (known, asked *ruleset.Rule) {
			edited := *r
			return &edited, r
		},
	} {
		s := newTurning(t, limit.Claims, tainting)
		s.asks(0)
		known, asked := change(s.rule)
		s.SetRules(ruleset.NewSet(known), s.nodes, now)
		before := &v1alpha1.RateStatus{ClaimTimes: []metav1.Time{metav1.NewTime(now.Add(-time.Hour))}}
		if o, again := s.Order(asked, before); o.Status != before || o.Claims != 0 || again != 0 {
			t.Errorf("%s: ordered %+v, again in %s", name, o, again)
		}
	}
}

func TestANodeIsWokenWhenAWriteIsCertainlyNotThere(t *testing.T) {
	s := newScene(t, rule("1"), 2)
	s.reserve(0, 0)
	s.reserve(1, 1)
	s.records(0, s.entry(0, v1alpha1.NodeStateFailed, "PatchFailed"))
	s.wakes("it may be there")
	s.server = now.Add(time.Minute)
	s.FreePlaces(s.rule.UID)
	s.wakes("a minute later", 1)
}

func TestAGrantBeforeTheFirstEvaluation(t *testing.T) {
	s := newScene(t, rule("1"), 1)
	s.nodes = append(s.nodes, inService(1))
	if !s.reserve(1, 0) || s.reserve(0, 1) {
		t.Fatal("the first node that asks gets the place")
	}
	edited := *s.rule
	s.rule = &edited
	s.SetRules(ruleset.NewSet(s.rule), s.nodes, now)
	if s.reserve(0, 1) {
		t.Error("the rule was edited: another node gets the place, too")
	}
	s.Forget(s.nodes[1].Name, now)
	s.take()

	young := build.MakeNode("young").UID("young").Obj() // no rule concerns it any more
	s.Reserve(s.rule.UID, young.Name, limit.Request{Since: now.Add(-time.Hour)})
	s.Record(young, nil, now)
	if !s.reserve(0, 1) {
		t.Error("a node that no rule concerns keeps the place")
	}
}

// TestNodesJoinAndLeave: a number of a node that is gone is used for another one.
func TestNodesJoinAndLeave(t *testing.T) {
	s := newScene(t, rule(""), 3)
	applied := func(when string, want ...int) {
		t.Helper()
		var names []string
		for _, i := range want {
			names = append(names, name(i))
		}
		if got := s.material().Applied; !slices.Equal(got, names) {
			t.Errorf("%s: %v, want %v", when, got, names)
		}
	}
	s.nodes = append(s.nodes, inService(3))
	s.Forget(name(1), now)
	applied("one left", 0, 2)
	s.isReady(3)
	applied("another one joined", 0, 2, 3)
	s.isReady(1)
	applied("the first is there again", 0, 2, 1, 3)
	if len(s.names) != 4 {
		t.Errorf("room for %d nodes", len(s.names))
	}
}

func TestAListOfNodesThatIsOlderThanTheLastEvaluation(t *testing.T) {
	s := newScene(t, rule("1"), 2)
	old := slices.Clone(s.nodes)
	s.nodes[0] = build.WrapNode(inService(0)).UID("another").Created(now.Add(time.Minute)).Obj()
	e := s.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
	e.Observed.Since = now
	s.records(0, e)
	edited := *s.rule
	s.rule = &edited
	s.SetRules(ruleset.NewSet(s.rule), old, now)
	look := s.Look(s.nodes[0])
	if diff := cmp.Diff(e.Observed, look.Observed(s.rule.UID)); diff != "" {
		t.Errorf("what was observed of the newer node (-want +got):\n%s", diff)
	}
}
