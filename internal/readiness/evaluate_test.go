// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

const (
	cni  = "example.com/CNI"
	disk = "example.com/Disk"
)

var start = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

// withoutResults leaves out what TestResultsAreInTheRulesOrder and TestAWindowBeginsWhenTheProcessSeesTheTurn look at.
var withoutResults = cmpopts.IgnoreFields(Verdict{}, "Results", "Changed")

// at is so many seconds after the start.
func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func rule() *build.RuleWrapper { return build.MakeRule("r").UID("r").Selector("pool", "workers") }

func node() *build.NodeWrapper {
	return build.MakeNode("n").UID("n").Label("pool", "workers").Created(at(-1000))
}

func compile(r *build.RuleWrapper) *ruleset.Rule { return ruleset.Compile(r.Obj(), nil, start) }

func require(conditionType string, status, def v1alpha1.ConditionStatus) v1alpha1.ConditionRequirement {
	return v1alpha1.ConditionRequirement{Type: conditionType, RequiredStatus: status, DefaultStatus: def}
}

// aging is a rule of a status that grows stale after 60 seconds.
func aging(status v1alpha1.ConditionStatus) *build.RuleWrapper {
	return rule().Require(v1alpha1.ConditionRequirement{Type: cni, RequiredStatus: status, MaxAgeSeconds: new(int32(60))})
}

// The process in most of these cases infers that the node was not ready 100 seconds before the start.
var unreadySince = Observed{Since: at(-100), Assumed: true}

// evaluation is one call of Evaluate.
type evaluation struct {
	rule      *build.RuleWrapper
	node      *build.NodeWrapper
	notBefore time.Time
	observed  Observed
	at        int
	want      Verdict
}

func evaluateAll(t *testing.T, cases map[string]evaluation) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, facts := compile(c.rule), &evidence.Facts{Node: c.node.Obj(),
				Boot: evidence.Boot{Bound: c.notBefore, SeenAt: c.notBefore}}
			got := Evaluate(r, facts, c.observed, at(c.at))
			compareVerdict(t, c.want, got)
			sameAgain(t, r, facts, got, at(c.at))
		})
	}
}

func TestEvaluate(t *testing.T) {
	both := func() *build.RuleWrapper { return rule().Condition(cni).Condition(disk) }
	evaluateAll(t, map[string]evaluation{
		"holds where the condition is True, since it is": {
			rule: rule().Condition(cni), node: node().Condition(cni, "True", at(-5)), observed: unreadySince,
			want: Verdict{Ready: true, Since: at(-5)},
		},
		"holds since the node's creation, where the condition has an earlier time": {
			rule: rule().Condition(cni), node: node().Created(at(-5)).Condition(cni, "True", at(-3600)),
			want: Verdict{Ready: true, Since: at(-5)},
		},
		"does not hold where the condition is False, since it is": {
			rule: rule().Condition(cni), node: node().Condition(cni, "False", at(-5)), observed: unreadySince,
			want: Verdict{Since: at(-5)},
		},
		"does not hold where the condition is missing, since this process first saw that": {
			rule: rule().Condition(cni), node: node(), observed: unreadySince,
			want: Verdict{Since: at(-100), Remembered: true, NeverAppeared: true},
		},
		"does not hold where the condition is missing, since now for a process that sees it for the first time": {
			rule: rule().Condition(cni), node: node(),
			want: Verdict{Since: at(0), Remembered: true, NeverAppeared: true},
		},
		"counts a missing condition as Unknown, where that is what is required": {
			rule: rule().Require(require(cni, "Unknown", "")), node: node(), observed: Observed{Ready: true, Since: at(-7)},
			want: Verdict{Ready: true, Since: at(-7), Remembered: true},
		},
		"does not hold where the default is another status, which is not an absence": {
			rule: rule().Require(require(cni, "True", "False")), node: node(), observed: unreadySince,
			want: Verdict{Since: at(-100), Remembered: true},
		},

		"allOf: holds since the latest": {
			rule: both(), node: node().Condition(cni, "True", at(-50)).Condition(disk, "True", at(-5)),
			want: Verdict{Ready: true, Since: at(-5)},
		},
		"allOf: does not hold since the earliest that does not": {
			rule: both(), node: node().Condition(cni, "False", at(-50)).Condition(disk, "False", at(-5)),
			want: Verdict{Since: at(-50)},
		},
		"allOf: does not hold since the earliest, in any order": {
			rule: both(), node: node().Condition(cni, "False", at(-5)).Condition(disk, "False", at(-50)),
			want: Verdict{Since: at(-50)},
		},
		"allOf: one that is missing, before one that is False": {
			rule: both(), node: node().Condition(disk, "False", at(-5)), observed: unreadySince,
			want: Verdict{Since: at(-100), Remembered: true, NeverAppeared: true},
		},
		"allOf: a missing one that may be missing does not count as one that is awaited": {
			rule: rule().Require(require(cni, "Unknown", "")).Condition(disk), node: node().Condition(disk, "False", at(-5)),
			want: Verdict{Since: at(-5)},
		},
		"allOf: holds since the latest, which has a time, beside one without": {
			rule: both(), node: node().Condition(cni, "True", time.Time{}).Condition(disk, "True", at(-5)),
			observed: Observed{Ready: true, Since: at(-100)}, want: Verdict{Ready: true, Since: at(-5)},
		},
		"anyOf: holds since the earliest that does": {
			rule: both().AnyOf(), node: node().Condition(cni, "True", at(-50)).Condition(disk, "True", at(-5)),
			want: Verdict{Ready: true, Since: at(-50)},
		},
		"anyOf: one suffices": {
			rule: both().AnyOf(), node: node().Condition(cni, "False", at(-50)).Condition(disk, "True", at(-5)),
			want: Verdict{Ready: true, Since: at(-5)},
		},
		"anyOf: does not hold since the last of them ceased to": {
			rule: both().AnyOf(), node: node().Condition(cni, "False", at(-50)).Condition(disk, "False", at(-5)),
			want: Verdict{Since: at(-5)},
		},

		"anyOf: a missing one does not matter while another holds": {
			rule: both().AnyOf(), node: node().Condition(disk, "True", at(-5)),
			want: Verdict{Ready: true, Since: at(-5)},
		},

		"a transition in the future that is seen for the first time counts from now": {
			rule: rule().Condition(cni), node: node().Condition(cni, "False", at(300)),
			want: Verdict{Since: at(0), Remembered: true},
		},
		"a condition without any time counts from when this process first saw it": {
			rule: rule().Condition(cni), node: node().Condition(cni, "False", time.Time{}), observed: unreadySince,
			want: Verdict{Since: at(-100), Remembered: true},
		},
		"an observation from the future, of a clock set back, was made by now": {
			rule: rule().Condition(cni), node: node(), observed: Observed{Since: at(50)},
			want: Verdict{Since: at(0), Remembered: true, NeverAppeared: true},
		},
		"that the process has seen the opposite is known after the clock was set back": {
			rule: rule().Condition(cni), node: node().Condition(cni, "False", at(-100)),
			observed: Observed{Ready: true, Since: at(50)},
			want:     Verdict{Since: at(0), Remembered: true},
		},
	})
}

// compareVerdict compares all but what is to be handed on.
func compareVerdict(t *testing.T, want, got Verdict) {
	t.Helper()
	got.Observed = Observed{}
	if diff := cmp.Diff(want, got, withoutResults); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// sameAgain judges once more with what the first judgement handed on: nothing may move.
func sameAgain(t *testing.T, r *ruleset.Rule, facts *evidence.Facts, first Verdict, now time.Time) {
	t.Helper()
	again := *facts
	if diff := cmp.Diff(first, Evaluate(r, &again, first.Observed, now), withoutResults); diff != "" {
		t.Errorf("judged once more (-first +again):\n%s", diff)
	}
}

func TestFreshness(t *testing.T) {
	evaluateAll(t, map[string]evaluation{
		"is fresh one second before its maximum age, and says when it will not be": {
			rule: aging("True"), node: node().Condition(cni, "True", at(-500)).Heartbeat(cni, at(0)), at: 59,
			observed: Observed{Ready: true, Since: at(-500)},
			want:     Verdict{Ready: true, Since: at(-500), RecheckAt: at(60)},
		},
		"is stale at its maximum age, to the second, and since then": {
			rule: aging("True"), node: node().Condition(cni, "True", at(-500)).Heartbeat(cni, at(0)), at: 60,
			observed: Observed{Ready: true, Since: at(-500)},
			want:     Verdict{Since: at(60), HeartbeatCounts: true},
		},
		"what has no time at all is stale, since this process first saw it": {
			rule: aging("True"), node: node().Condition(cni, "True", time.Time{}), at: 5, observed: unreadySince,
			want: Verdict{Since: at(-100), Remembered: true, HeartbeatCounts: true},
		},
		"a heartbeat in the future, seen for the first time, counts from now": {
			rule: aging("True"), node: node().Condition(cni, "True", at(-5)).Heartbeat(cni, at(300)), at: 0,
			want: Verdict{Ready: true, Since: at(0), Remembered: true, RecheckAt: at(360)},
		},
		"a False that grows stale does not hold since it was False, and counts as Unknown then": {
			rule: aging("True"), node: node().Condition(cni, "False", at(0)), at: 59, observed: unreadySince,
			want: Verdict{Since: at(0), RecheckAt: at(60)},
		},
		"where Unknown is required, a True that grows stale will hold": {
			rule: aging("Unknown"), node: node().Condition(cni, "True", at(0)), at: 59, observed: unreadySince,
			want: Verdict{Since: at(0), RecheckAt: at(60)},
		},
		"where Unknown is required, stale holds, and only a heartbeat will tell that it does not any more": {
			rule: aging("Unknown"), node: node().Condition(cni, "True", at(0)), at: 60, observed: unreadySince,
			want: Verdict{Ready: true, Since: at(60), HeartbeatCounts: true},
		},
		"what is reported at the boot's first heartbeat counts, since then": {
			rule: rule().Condition(cni), node: node().Condition(cni, "True", at(-500)).Heartbeat(cni, at(0)),
			notBefore: at(0), at: 5,
			want: Verdict{Ready: true, Since: at(0)},
		},
		"a False from before the boot that is reported after it counts since the boot": {
			rule: rule().Condition(cni), node: node().Condition(cni, "False", at(-500)).Heartbeat(cni, at(3)),
			notBefore: at(0), at: 5,
			observed: Observed{Since: at(1)},
			want:     Verdict{Since: at(0)},
		},
		"what is reported after the boot counts since that heartbeat": {
			rule: rule().Condition(cni), node: node().Condition(cni, "True", at(-500)).Heartbeat(cni, at(3)),
			notBefore: at(0), at: 5,
			want: Verdict{Ready: true, Since: at(3), Remembered: true},
		},
	})
}

// The condition stays True all through, so its transition time does not tell when it began to hold again.
func TestFreshAgainCountsFromTheHeartbeat(t *testing.T) {
	r := compile(rule().FreshCondition(cni, 60))
	look := func(heartbeat int, before Verdict, second int) Verdict {
		return Evaluate(r, &evidence.Facts{Node: node().Condition(cni, "True", at(-500)).Heartbeat(cni, at(heartbeat)).Obj()},
			before.Observed, at(second))
	}
	fresh := look(0, Verdict{}, 10)
	stale := look(0, fresh, 60)
	again := look(100, stale, 100)
	later := look(130, again, 131)
	compareVerdict(t, Verdict{Since: at(60), HeartbeatCounts: true}, stale)
	compareVerdict(t, Verdict{Ready: true, Since: at(100), Remembered: true, RecheckAt: at(160)}, again)
	compareVerdict(t, Verdict{Ready: true, Since: at(100), Remembered: true, RecheckAt: at(190)}, later)

	// A process that was started meanwhile may count from a later heartbeat, never from an earlier time.
	restarted := look(130, Verdict{}, 131)
	if restarted.Since.Before(again.Since) {
		t.Errorf("a restart shortens the window: ready since %s, was %s", restarted.Since, again.Since)
	}
	compareVerdict(t, Verdict{Ready: true, Since: at(130), Remembered: true, RecheckAt: at(190)}, restarted)
}

// The clock of the node's reporter is an hour ahead. By their times, its reports would be fresh for an hour.
func TestAHeartbeatFarInTheFutureCountsFromItsArrival(t *testing.T) {
	r, arrivals := compile(rule().FreshCondition(cni, 60)), &evidence.Arrivals{}
	var before Verdict
	for _, step := range []struct {
		second, heartbeat int
		want              Verdict
	}{
		{0, 3600, Verdict{Ready: true, Since: at(0), Remembered: true, RecheckAt: at(60), HeartbeatCounts: true}},
		{50, 3650, Verdict{Ready: true, Since: at(0), Remembered: true, RecheckAt: at(110), HeartbeatCounts: true}},
		{109, 3650, Verdict{Ready: true, Since: at(0), Remembered: true, RecheckAt: at(110), HeartbeatCounts: true}},
		{110, 3650, Verdict{Since: at(110), HeartbeatCounts: true}},
		{3640, 3650, Verdict{Since: at(110), HeartbeatCounts: true}}, // the future has come
		{3660, 3660, Verdict{Ready: true, Since: at(3660), Remembered: true, RecheckAt: at(3720)}},
	} {
		n := node().Condition(cni, "True", at(-500)).Heartbeat(cni, at(step.heartbeat)).Obj()
		before = Evaluate(r, &evidence.Facts{Node: n, Arrivals: arrivals}, before.Observed, at(step.second))
		compareVerdict(t, step.want, before)
	}
}

// The process remembers when it first saw a heartbeat of the far future, and no other one.
func TestOnlyHeartbeatsFarInTheFutureCountFromTheirArrival(t *testing.T) {
	const hour = 3600
	type look struct {
		second, cni, disk int
		ready             bool
	}
	for name, looks := range map[string][]look{
		"of the past": {{second: 50, cni: 0, disk: 10, ready: true}, {59, 0, 10, true}, {60, 0, 10, false}},
		"two of the future": {{second: 0, cni: hour, disk: hour, ready: true}, {59, hour, hour, true},
			{60, hour, hour, false}},
		"the operator's clock is set back": {{second: 0, cni: hour, disk: -hour / 2, ready: false},
			{-hour / 2, hour, -hour / 2, true}, {59 - hour/2, hour, -hour / 2, true},
			{60 - hour/2, hour, -1700, false}},
	} {
		arrivals := &evidence.Arrivals{}
		r := compile(rule().FreshCondition(cni, 60).FreshCondition(disk, 60))
		missing := Evaluate(r, &evidence.Facts{Node: node().Obj(), Arrivals: &evidence.Arrivals{}}, Observed{}, at(0))
		if missing.Ready || !missing.NeverAppeared {
			t.Errorf("%s: before any heartbeat: ready is %t", name, missing.Ready)
		}
		for _, l := range looks {
			n := node().Condition(cni, "True", at(-9000)).Heartbeat(cni, at(l.cni)).
				Condition(disk, "True", at(-9000)).Heartbeat(disk, at(l.disk)).Obj()
			v := Evaluate(r, &evidence.Facts{Node: n, Arrivals: arrivals}, Observed{}, at(l.second))
			if v.Ready != l.ready {
				t.Errorf("%s, at %d s: ready is %t: %s", name, l.second, v.Ready, v.Blocking())
			}
		}
	}
}

// Until it holds, a rule with several conditions is judged by all of them; the last heartbeat that was missing decides.
func TestFreshAgainOfTwo(t *testing.T) {
	r := compile(rule().FreshCondition(cni, 60).FreshCondition(disk, 60))
	look := func(heartbeatCNI, heartbeatDisk int, before Verdict, second int) Verdict {
		n := node().Condition(cni, "True", at(-500)).Heartbeat(cni, at(heartbeatCNI)).
			Condition(disk, "True", at(-400)).Heartbeat(disk, at(heartbeatDisk))
		return Evaluate(r, &evidence.Facts{Node: n.Obj()}, before.Observed, at(second))
	}
	stale := look(0, 10, Verdict{}, 100)
	half := look(110, 10, stale, 111)
	whole := look(110, 120, half, 120)
	compareVerdict(t, Verdict{Since: at(60), HeartbeatCounts: true}, stale)
	compareVerdict(t, Verdict{Since: at(70), RecheckAt: at(170), HeartbeatCounts: true}, half)
	compareVerdict(t, Verdict{Ready: true, Since: at(120), Remembered: true, RecheckAt: at(170)}, whole)
}

// The node's clock is an hour behind. By its times, no window would have any effect.
func TestAWindowBeginsWhenTheProcessSeesTheTurn(t *testing.T) {
	r := compile(rule().Condition(cni))
	seen := func(status corev1.ConditionStatus, before Verdict, second int) Verdict {
		n := node().Created(at(-7200)).Condition(cni, status, at(second-3600)).Obj()
		return Evaluate(r, &evidence.Facts{Node: n}, before.Observed, at(second))
	}
	first := seen("True", Verdict{}, 0)
	lost := seen("False", first, 100)
	later := seen("False", lost, 110)
	back := seen("True", later, 120)
	compareVerdict(t, Verdict{Ready: true, Since: at(-3600)}, first) // as after a restart
	compareVerdict(t, Verdict{Since: at(100), Remembered: true}, lost)
	compareVerdict(t, Verdict{Since: at(100), Remembered: true}, later)
	compareVerdict(t, Verdict{Ready: true, Since: at(120), Remembered: true}, back)
	if !lost.Changed.Equal(at(-3500)) {
		t.Errorf("changed at %s, want the time of the evidence", lost.Changed)
	}
	put := Verdict{Observed: Observed{Since: at(0), Assumed: true}} // in force: no node was seen
	compareVerdict(t, Verdict{Ready: true, Since: at(-3600)}, seen("True", put, 0))
	compareVerdict(t, Verdict{Ready: true, Since: at(9), Remembered: true}, seen("True", seen("False", put, 5), 9))
}

// No window may run while the evidence cannot be read.
func TestAWindowBeginsWhenTheEvidenceCanBeReadAgain(t *testing.T) {
	r := compile(rule().Condition(cni))
	seen := func(before Observed, second int) Verdict {
		n := node().Condition(cni, "True", at(-500)).Obj()
		return Evaluate(r, &evidence.Facts{Node: n}, before, at(second))
	}
	again := seen(Observed{Ready: true, Since: at(0), Unread: true}, 60)
	compareVerdict(t, Verdict{Ready: true, Since: at(60), Remembered: true}, again)
	compareVerdict(t, Verdict{Ready: true, Since: at(60), Remembered: true}, seen(again.Observed, 70))
	turned := seen(Observed{Since: at(0), Unread: true}, 60)
	compareVerdict(t, Verdict{Ready: true, Since: at(60), Remembered: true}, turned)
	compareVerdict(t, Verdict{Ready: true, Since: at(-500)}, seen(Observed{Unread: true}, 60)) // it was never read
	compareVerdict(t, Verdict{Ready: true, Since: at(-500)}, seen(Observed{Ready: true, Since: at(0), Assumed: true,
		Unread: true}, 60))
}

func TestRecheckIsTheFirstThatMayChange(t *testing.T) {
	r := compile(rule().FreshCondition(cni, 60).FreshCondition(disk, 30))
	n := node().Condition(cni, "True", at(0)).Condition(disk, "True", at(10)).Obj()
	got := Evaluate(r, &evidence.Facts{Node: n}, Observed{}, at(15))
	if diff := cmp.Diff(at(40), got.RecheckAt); diff != "" {
		t.Errorf("recheck (-want +got):\n%s", diff)
	}
}

// The verdict stays, and the status of the rule shows the result of each piece of evidence.
func TestAHeartbeatOfWhatDoesNotDecideCounts(t *testing.T) {
	r := compile(rule().FreshCondition(cni, 60).Condition(disk).AnyOf())
	n := node().Condition(cni, "True", at(-500)).Condition(disk, "True", at(-5)).Obj()
	compareVerdict(t, Verdict{Ready: true, Since: at(-5), HeartbeatCounts: true},
		Evaluate(r, &evidence.Facts{Node: n}, Observed{}, at(0)))
}
