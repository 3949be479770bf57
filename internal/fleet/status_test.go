// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

func TestWhatTheStatusSaysOfAllNodes(t *testing.T) {
	otherRule := func(e *Entry) { e.Current.Matches = false }
	for name, c := range map[string]struct {
		rule  *ruleset.Rule
		nodes []func(*Entry)
		want  Sums
	}{
		"an older claim decides": {
			nodes: []func(*Entry){func(e *Entry) { e.Shared = true }, func(e *Entry) { e.Shared = true }, func(*Entry) {}},
			want:  Sums{Shared: 2},
		},
		"other clients publish the conditions": {
			nodes: []func(*Entry){func(e *Entry) { e.Displaced = "b" }, func(e *Entry) { e.Displaced = "a" },
				func(*Entry) {}},
			want: Sums{Displaced: 2, DisplacedBy: "a"},
		},
		"conditions could not be written": {
			nodes: []func(*Entry){func(e *Entry) { e.PublishProblem = "b" }, func(e *Entry) { e.PublishProblem = "a" },
				func(*Entry) {}},
			want: Sums{Unpublished: 2, PublishProblem: "a"},
		},
		"the reason is longer than a message in a status": {
			nodes: []func(*Entry){func(e *Entry) { e.PublishProblem = strings.Repeat("a", v1alpha1.MaxStatusMessage+1) }},
			want: Sums{Unpublished: 1,
				PublishProblem: strings.Repeat("a", v1alpha1.MaxStatusMessage-len("...")) + "..."},
		},
		"warnings": {
			nodes: []func(*Entry){func(e *Entry) { e.Warning = "b" }, func(e *Entry) { e.Warning = "a" }, func(*Entry) {}},
			want:  Sums{Warning: "a"},
		},
		"overrides": {
			nodes: []func(*Entry){func(e *Entry) { e.Reason = state.ReasonOverrideHold },
				func(e *Entry) { e.Reason = state.ReasonOverrideRelease }, func(*Entry) {},
				func(e *Entry) { e.Reason = state.ReasonOverrideHold; otherRule(e) }},
			want: Sums{Overridden: 2},
		},
		"published conditions": {
			rule: publishing("1", 1),
			nodes: []func(*Entry){func(e *Entry) { e.Published = "False" }, func(e *Entry) { e.Published = "True" },
				func(e *Entry) { e.Published = "False" }, func(*Entry) {}},
			want: Sums{Published: map[corev1.ConditionStatus]int{"True": 1, "False": 2, "Unknown": 0}},
		},
	} {
		for range 2 { // in both orders
			slices.Reverse(c.nodes)
			if c.rule == nil {
				c.rule = rule("")
			}
			s := newScene(t, c.rule, len(c.nodes))
			for i, edit := range c.nodes {
				e := s.entry(i, v1alpha1.NodeStateReady, state.ReasonEvidenceHolds)
				edit(&e)
				s.records(i, e)
			}
			got := s.material().Sums
			got.Counts = v1alpha1.NodeCounts{}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestARuleThatPublishesNoMoreSaysNothingOfItsCondition(t *testing.T) {
	s := newScene(t, publishing("1", 1), 1)
	e := s.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
	e.Published = corev1.ConditionFalse
	s.records(0, e)
	s.rule = rule("1")
	s.SetRules(ruleset.NewSet(s.rule), s.nodes, now)
	if m := s.material(); m.Published != nil || m.Counts.Held != 1 {
		t.Errorf("before the node is evaluated again: %+v", m.Sums)
	}
}

func TestTheListsOfAStatus(t *testing.T) {
	s := newScene(t, rule(""), 5)
	held := s.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
	held.Present = true
	s.records(0, held)
	s.isReady(1)
	failed := s.entry(2, v1alpha1.NodeStateFailed, "PatchFailed")
	failed.Message, failed.Current.Matches = "the taint of a node with other labels", false
	s.records(2, failed)
	other := s.entry(3, "", "")
	other.Current.Matches = false
	s.records(3, other)
	m := s.material()
	said := map[string]v1alpha1.TaintStatus{}
	for _, e := range m.Evaluations {
		said[e.NodeName] = e.TaintStatus
	}
	if diff := cmp.Diff(map[string]v1alpha1.TaintStatus{name(0): "Present", name(1): "Absent"}, said); diff != "" {
		t.Errorf("evaluations (-want +got):\n%s", diff)
	}
	if len(m.Failed) != 1 || m.Failed[0].NodeName != name(2) || m.Failed[0].Message != failed.Message {
		t.Errorf("failed nodes: %+v", m.Failed)
	}
	if want := []string{name(2), name(0), name(4), name(1)}; !slices.Equal(m.Applied, want) {
		t.Errorf("applied nodes: %v, want %v", m.Applied, want)
	}
}

func TestHeldNodesAreCountedByWhatTheyWaitFor(t *testing.T) {
	r := ruleset.Compile(build.MakeRule("net").UID("u1").Created(now).Selector("pool", "a").
		Condition("example.com/Ready").Evidence(v1alpha1.Requirement{Name: "driver",
		CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "csi.example.com"}}).
		Taint("example.com/net", "", corev1.TaintEffectNoSchedule).Obj(), nil, now)
	s := newScene(t, r, 3)
	waits := func(when string, conditions, drivers int, since time.Time) {
		t.Helper()
		c := s.Counts()[0]
		want := map[string]int{"example.com/Ready": conditions, "requirement/driver": drivers}
		if diff := cmp.Diff(want, c.Blocked); diff != "" || !c.HeldSince.Equal(since) {
			t.Errorf("%s: held since %s, nodes wait for (-want +got):\n%s", when, c.HeldSince, diff)
		}
	}
	missing := func(i int, status v1alpha1.ConditionStatus, driver bool) Entry {
		e := s.entry(i, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		e.Results = []v1alpha1.ConditionEvaluationResult{
			{Type: "example.com/Ready", CurrentStatus: status, RequiredStatus: "True"}}
		e.Requirements = []v1alpha1.RequirementEvaluationResult{{Name: "driver", Satisfied: driver}}
		return e
	}
	waits("at first", 0, 0, time.Time{})
	other := missing(0, "False", false)
	other.State, other.Present, other.Current.Matches = v1alpha1.NodeStateFailed, true, false
	s.records(0, other)
	waits("the taint stays on a node with other labels", 0, 0, time.Time{})
	s.records(1, missing(1, "False", true))
	s.records(2, missing(2, "True", false))
	waits("two nodes are held", 1, 1, now)
}

// TestTheStartOfAHold is about claims that no record has room for.
func TestTheStartOfAHold(t *testing.T) {
	s := newScene(t, rule(""), 1)
	at := func(when string, after time.Duration, want time.Duration) {
		t.Helper()
		e := s.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		s.Record(s.nodes[0], []Entry{e}, now.Add(after))
		if got := s.Counts()[0].HeldSince; !got.Equal(now.Add(want)) {
			t.Errorf("%s: held since %s", when, got)
		}
	}
	at("when it was first seen", 0, 0)
	at("evaluated again", time.Minute, 0)
	edited := *s.rule
	s.rule = &edited
	s.SetRules(ruleset.NewSet(s.rule), s.nodes, now.Add(2*time.Minute))
	at("the rule was edited", 3*time.Minute, 0)
	s.nodes[0] = build.WrapNode(s.nodes[0]).UID("another").Obj()
	at("another node has its name", 4*time.Minute, 4*time.Minute)
}

func TestTheTimeOfTheLastChange(t *testing.T) {
	s := newScene(t, rule(""), 1)
	held := func() { s.records(0, s.entry(0, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)) }
	changed := func(when string, want time.Time) {
		t.Helper()
		if got := s.material().Evaluations[0].LastEvaluationTime.Time; !got.Equal(want) {
			t.Errorf("%s: changed at %s, want %s", when, got, want)
		}
	}
	held()
	s.server = now.Add(time.Hour)
	edited := *s.rule
	s.rule = &edited
	s.SetRules(ruleset.NewSet(s.rule), s.nodes, now)
	changed("the rule was edited", now)
	held()
	changed("evaluated by the edited rule", now)
	s.nodes[0] = build.WrapNode(s.nodes[0]).UID("another").Obj()
	s.Rule(s.rule.UID)
	s.take()
	held()
	changed("another node has its name", s.server)
	s.tells("another node has its name", 1)
}

func TestNodesThatWaitForTheirReplacement(t *testing.T) {
	s := newScene(t, rule(""), 3)
	for _, expired := range []bool{true, false} {
		for i := range 2 {
			e := s.entry(i, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
			s.records(i, e)
			s.Rule(s.rule.UID)
			s.take()
			e.Expired = expired
			s.records(i, e)
			s.tells("of nodes that wait", map[bool]int{true: 1}[expired])
			s.Rule(s.rule.UID)
		}
		if got := s.Expired(s.rule.UID); expired != slices.Equal(got, []string{name(0), name(1)}) ||
			!expired && len(got) > 0 {
			t.Errorf("expired %t: %v", expired, got)
		}
	}
	if got := s.Expired("unknown"); len(got) > 0 {
		t.Errorf("of a rule that is not known: %v", got)
	}
}

func TestADeletedRuleConcernsNodesThatHaveOnlyItsAnnotation(t *testing.T) {
	s := newScene(t, rule(""), 1)
	s.nodes = append(s.nodes, inService(1)) // not seen before
	for i := range s.nodes {
		s.records(i, Entry{Rule: s.rule, Current: &nodeview.State{}})
	}
	if got := s.SetRules(ruleset.NewSet(), nil, now); !slices.Equal(got, []string{name(0), name(1)}) {
		t.Errorf("concerned: %v", got)
	}
}

func TestARuleWithoutAnEntryConcernsTheNodeNoLonger(t *testing.T) {
	s := newScene(t, rule(""), 2)
	s.isReady(0)
	s.Rule(s.rule.UID)
	s.take()
	for _, told := range []int{1, 0} {
		s.Record(s.nodes[0], nil, now)
		s.tells("other labels", told)
		s.Rule(s.rule.UID)
	}
	if m := s.material(); m.Counts.Matched != 1 || m.Released != 1 || !slices.Equal(m.Applied, []string{name(1)}) {
		t.Errorf("%+v, in service %d, applied %v", m.Counts, m.Released, m.Applied)
	}
}

func TestAHeartbeatCountsIfItDoesForOneRule(t *testing.T) {
	s := newScene(t, rule(""), 1)
	other := ruleset.Compile(build.MakeRule("other").UID("u2").Created(now).Selector("pool", "a").
		Condition("example.com/Other").Taint("example.com/other", "", corev1.TaintEffectNoSchedule).Obj(), nil, now)
	s.SetRules(ruleset.NewSet(s.rule, other), s.nodes, now)
	for i, counts := range [][]bool{{true, false}, {false, true}, {false, false}} {
		first, second := s.entry(0, v1alpha1.NodeStateReady, ""), s.entry(0, v1alpha1.NodeStateReady, "")
		first.HeartbeatCounts, second.Rule, second.HeartbeatCounts = counts[0], other, counts[1]
		s.Record(s.nodes[0], []Entry{first, second}, now)
		if got := s.HeartbeatCounts(s.nodes[0].Name); got != (i < 2) {
			t.Errorf("%v: %t", counts, got)
		}
	}
}
