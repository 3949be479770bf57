// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

const verdict = "example.com/Verdict"

func publishing(limit string, generation int64) *ruleset.Rule {
	r := build.MakeRule("net").UID("u1").Created(now).Generation(generation).Selector("pool", "a").
		Condition("example.com/Ready").Publish(verdict).MaxUnavailable(limit)
	return ruleset.Compile(r.Obj(), nil, now)
}

// marking is a scene of a rule that publishes a condition, with maxUnavailable: 1.
type marking struct{ *scene }

func newMarking(t *testing.T, nodes int) *marking {
	return &marking{newScene(t, publishing("1", 1), nodes)}
}

// mark makes the condition False on node i, or takes that back, and records what has become of the node.
func (m *marking) mark(i int, marked bool, is v1alpha1.NodeState) {
	n := build.WrapNode(m.nodes[i]).Without(verdict)
	if marked {
		n.Condition(verdict, corev1.ConditionFalse, now).Reason(verdict, "NodegateRuleNotReady", "")
	}
	m.nodes[i] = n.Obj()
	m.records(i, m.entry(i, is, state.ReasonEvidenceMissing))
}

// asks checks which nodes may be marked, of some that ask in this order: a "+" behind the number.
func (m *marking) asks(when, want string) {
	m.Helper()
	for ask := range strings.FieldsSeq(want) {
		i := int(ask[0] - '0')
		r := limit.Request{Use: limit.Marks, Since: now.Add(-time.Minute)}
		if granted := m.Reserve(m.rule.UID, m.nodes[i].Name, r) == ""; granted != strings.HasSuffix(ask, "+") {
			m.Errorf("%s: node %d may be marked: %t", when, i, granted)
		}
	}
}

func TestAPlaceGoesToANodeThatWasDenied(t *testing.T) {
	m := newMarking(t, 4)
	m.asks("at first", "0+ 1- 0+ 2-")
	m.mark(0, true, v1alpha1.NodeStateHeld)
	m.asks("the place is taken", "1- 2- 3-")
	m.wakes("while the node is marked")
	m.mark(3, false, v1alpha1.NodeStateReady)
	m.mark(0, false, v1alpha1.NodeStateReady)
	m.wakes("the node is ready: the first that was denied", 1)
	m.mark(1, false, v1alpha1.NodeStateHeld)
	m.wakes("it needs no mark: the next", 2)
	m.asks("one place", "2+ 1-")
	m.mark(1, false, v1alpha1.NodeStateReady)
	m.mark(2, false, v1alpha1.NodeStateHeld)
	m.wakes("those that are ready wait no longer")
}

// TestTheStatusOfARuleIsToldOfAMarkThatWaits: the node's condition is Unknown before and after.
func TestTheStatusOfARuleIsToldOfAMarkThatWaits(t *testing.T) {
	m := newMarking(t, 2)
	m.asks("at first", "0+")
	for _, waits := range []bool{false, true} {
		m.asks("each time", "1-")
		e := m.entry(1, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		e.Published, e.Unmarked = corev1.ConditionUnknown, waits
		m.Rule(m.rule.UID)
		m.take()
		m.records(1, e)
	}
	m.tells("that the node waits", 1)
	if got := m.material(); got.Unmarked != 1 || !slices.Equal(got.UnmarkedNodes, []string{name(1)}) || got.Waiting != 0 {
		t.Errorf("material %+v", got.Limits)
	}
}

// TestANodeWithoutRoomForItsMarkDoesNotWait: under a rate, it would get a turn that it cannot use, and wait again, for
// ever: each time, the rule's status is written.
func TestANodeWithoutRoomForItsMarkDoesNotWait(t *testing.T) {
	for recorded, waits := range map[string]bool{"": false, `{"rule":"net","published":"` + verdict + `"}`: true} {
		m := newMarking(t, 2)
		m.nodes[1] = build.WrapNode(m.nodes[1]).Annotation(m.rule.RecordKey(), recorded).Obj()
		m.asks("at first", "0+ 1-")
		e := m.entry(1, v1alpha1.NodeStateHeld, state.ReasonEvidenceMissing)
		e.Unmarked, e.Warning = true, AnnotationsFull
		m.records(1, e)
		if got := m.material().Unmarked == 1; got != waits {
			t.Errorf("with the record %q: waits: %t", recorded, got)
		}
	}
}

func TestAMarkThatIsRefusedFreesItsPlace(t *testing.T) {
	for what, is := range map[string]v1alpha1.NodeState{
		"with a taint": v1alpha1.NodeStateHeld, "without": v1alpha1.NodeStateFailed,
	} {
		m := newMarking(t, 2)
		m.asks(what, "0+ 1-")
		e := m.entry(0, is, state.ReasonEvidenceMissing)
		e.PublishProblem, e.Unwritten = "forbidden", true
		m.records(0, e)
		m.wakes(what, 1)
		m.asks(what, "0- 1+")
	}
}

func TestAMarkThatMayHaveBeenWrittenKeepsItsPlace(t *testing.T) {
	for what, is := range map[string]v1alpha1.NodeState{
		"with a taint": v1alpha1.NodeStateHeld, "without": v1alpha1.NodeStateFailed,
	} {
		for _, problem := range []string{"timeout", ""} {
			if problem == "" && is == v1alpha1.NodeStateHeld {
				continue // no failure
			}
			m := newMarking(t, 2)
			m.asks("at first", "0+ 1-")
			e := m.entry(0, is, state.ReasonEvidenceMissing)
			e.PublishProblem = problem
			m.records(0, e)
			m.asks(what+" after a failure", "1-")
			m.mark(0, false, v1alpha1.NodeStateHeld)
			m.wakes(what+" it was not written", 1)
			m.asks(what+" then", "1+ 0-")
			m.Forget(m.nodes[1].Name, now)
			m.wakes(what+" a node that is gone and was not marked", 0)
		}
	}
}

// TestAFailureOfTheConditionIsNoneOfTheClaim: the start of the hold is in the node's record, and uses one place.
func TestAFailureOfTheConditionIsNoneOfTheClaim(t *testing.T) {
	m := &marking{newScene(t, publishing("2", 1), 3)}
	asks := func(i int, want bool) {
		t.Helper()
		if got := m.Reserve(m.rule.UID, m.nodes[i].Name, limit.Request{Since: now}) == ""; got != want {
			t.Errorf("node %d may be held: %t", i, got)
		}
	}
	asks(0, true)
	e := m.entry(0, v1alpha1.NodeStateFailed, "PublishFailed")
	e.PublishProblem, e.Current.Claimed = "timeout", true
	m.records(0, e)
	asks(1, true)
	asks(2, false)
}
