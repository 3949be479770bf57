// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func network() *build.RuleWrapper {
	return build.MakeRule("net").UID("u1").Generation(1).Created(now).Selector("pool", "a").Condition("example.com/Ready").
		Taint("example.com/net", "", corev1.TaintEffectNoSchedule)
}

func newRules() (*Rules, *[]*ruleset.Set) {
	c := NewRules(clocktesting.NewFakePassiveClock(now))
	var seen []*ruleset.Set
	c.Subscribe(func(s *ruleset.Set) { seen = append(seen, s) })
	seen = nil
	return c, &seen
}

func TestSubscribersSeeEveryChangeButNotAStatusWrite(t *testing.T) {
	c, seen := newRules()
	c.put(network().Obj())
	c.put(network().StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue).StatusInForce(now,
		c.Set().Rule("u1").SelectorHash).Obj())
	if len(*seen) != 1 {
		t.Errorf("told %d times, want once: a status changes nothing", len(*seen))
	}
	c.put(network().Generation(2).Suspend(true).Obj())
	if len(*seen) != 2 || (*seen)[1].Rule("u1").Mode != ruleset.Suspended {
		t.Errorf("told %d times", len(*seen))
	}
	var late []*ruleset.Set
	c.Subscribe(func(s *ruleset.Set) { late = append(late, s) })
	if len(late) != 1 || late[0] != c.Set() {
		t.Errorf("a late subscriber is told %d times what there is", len(late))
	}
	handler(c.put, c.drop).OnDelete(toolscache.DeletedFinalStateUnknown{Obj: network().Obj()})
	if len(*seen) != 3 || len((*seen)[2].All()) != 0 {
		t.Errorf("told %d times", len(*seen))
	}
}

func TestARuleWithAKeyThatIsNotAllowedIsFrozen(t *testing.T) {
	for name, c := range map[string]struct {
		rule   *build.RuleWrapper
		frozen string
	}{
		"an allowed taint":               {network(), ""},
		"another taint":                  {network().Taint("dedicated", "", corev1.TaintEffectNoSchedule), "spec.taint.key"},
		"another completion annotation":  {network().CompletionAnnotation("other.io/x"), "spec.completionAnnotation"},
		"another mark for replacement":   {network().Replace(60, 1, "other.io/x"), "spec.timeout.replace.annotation.key"},
		"a deleted rule: its taint goes": {network().Taint("dedicated", "", corev1.TaintEffectNoSchedule).Deleted(now), ""},
	} {
		t.Run(name, func(t *testing.T) {
			rules, _ := newRules()
			rules.KeyPrefixes = []string{"example.com/", "example.org/"}
			rules.put(c.rule.Obj())
			r := rules.Set().Rule("u1")
			if (r.Mode == ruleset.Frozen) != (c.frozen != "") {
				t.Errorf("the rule is %s: %v", r.Mode, r.Problems)
			}
			if c.frozen != "" && (r.Problems[0].Field != c.frozen || r.Problems[0].Reason != "ForbiddenKey") {
				t.Error(r.Problems)
			}
			before := rules.Set().Rule("u1")
			rules.put(network().UID("u2").Named("another").Obj())
			if rules.Set().Rule("u1") != before {
				t.Error("a change of another rule makes it a new one")
			}
		})
	}
}

// TestReported: webhooks have no evidence. What the leader cannot put in force is frozen for them by its status.
func TestReported(t *testing.T) {
	c, seen := newRules()
	c.put(network().Obj())
	refused := network().StatusCondition(v1alpha1.ConditionReady, metav1.ConditionFalse)
	refused.Status.Conditions[0].ObservedGeneration = 1
	for i, step := range []struct {
		tells string
		rule  *build.RuleWrapper
		want  ruleset.Mode
	}{
		{"the leader cannot read its evidence", refused, ruleset.Frozen},
		{"and now it can", network().StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue), ruleset.Enforced},
		{"again not", refused, ruleset.Frozen},
		{"edited, and not looked at", build.WrapRule(refused.Obj()).Generation(2).Condition("example.com/B"),
			ruleset.Enforced},
	} {
		c.put(step.rule.Obj())
		if got := c.Reported().Rule("u1").Mode; got != step.want {
			t.Errorf("step %d, %s: %s, want %s", i, step.tells, got, step.want)
		}
		if got := c.Set().Rule("u1").Mode; got != ruleset.Enforced {
			t.Errorf("step %d, %s: the leader's rule is %s", i, step.tells, got)
		}
	}
	if len(*seen) != 2 {
		t.Errorf("told %d times, want twice: a status changes nothing for the leader", len(*seen))
	}
	c.drop(network().Obj())
	c.put(network().Obj())
	if got := c.Reported().Rule("u1").Mode; got != ruleset.Enforced {
		t.Errorf("a rule that is there again is %s", got)
	}
}

// TestListed: if there is an AdmissionRules, it says what is frozen, and not the status.
func TestListed(t *testing.T) {
	c, _ := newRules()
	a := &Admission{Rules: c}
	reported := network().StatusCondition(v1alpha1.ConditionReady, metav1.ConditionFalse)
	reported.Status.Conditions[0].ObservedGeneration = 1
	expect := func(when string, want ruleset.Mode) {
		t.Helper()
		if got := c.Reported().Rule("u1").Mode; got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	object := &admissionv1alpha1.AdmissionRules{}
	a.put(object)
	c.put(reported.Obj())
	expect("frozen by its status only", ruleset.Enforced)
	object.Frozen = []string{"u1"}
	a.put(object)
	expect("listed", ruleset.Frozen)
	c.put(network().Obj())
	expect("listed, and not frozen by its status", ruleset.Frozen)
	a.drop(object)
	expect("the object is deleted", ruleset.Enforced)
	c.put(reported.Obj())
	expect("frozen by its status, without an object", ruleset.Frozen)
}

func TestARecreatedRuleTakesThePlaceOfItsNamesake(t *testing.T) {
	c, _ := newRules()
	c.put(network().Obj())
	c.put(network().UID("u2").Obj())
	if s := c.Set(); s.Rule("u1") != nil || s.Named("net").UID != "u2" {
		t.Error("both are there")
	}
}

func TestFreezeFreezesAllRulesAndThawsThem(t *testing.T) {
	c, seen := newRules()
	c.put(network().Obj())
	p := ruleset.Problem{Reason: ruleset.ReasonForeignCRD, Message: "not ours"}
	c.freeze(&p)
	c.freeze(&p)
	c.put(network().Generation(2).DryRun(true).Obj())
	if len(*seen) != 3 || c.Set().Rule("u1").Mode != ruleset.Frozen || c.Frozen() == nil {
		t.Errorf("told %d times, mode %v", len(*seen), c.Set().Rule("u1").Mode)
	}
	c.reread(nil, c.Frozen())
	if c.Set().Rule("u1").Mode != ruleset.DryRun || c.Frozen() != nil {
		t.Errorf("mode %v after the thaw", c.Set().Rule("u1").Mode)
	}
}

// TestAFrozenRuleKeepsItsOtherProblems: no override ends its claim if another controller manages the taint.
func TestAFrozenRuleKeepsItsOtherProblems(t *testing.T) {
	c, _ := newRules()
	c.put(network().Obj())
	c.setForeign(map[string]foreignRule{"theirs": {managed: true,
		taint: ruleset.TaintID{Key: "example.com/net", Effect: corev1.TaintEffectNoSchedule}}})
	c.freeze(&ruleset.Problem{Reason: ruleset.ReasonForeignCRD})
	frozen := c.Set().Rule("u1")
	if !frozen.Yields() || frozen.Problems[0].Reason != ruleset.ReasonForeignCRD {
		t.Errorf("frozen because of %v", frozen.Problems)
	}
	if c.put(network().UID("u2").Named("other").Obj()); c.Set().Rule("u1") != frozen {
		t.Error("another rule makes it a new one")
	}
	if c.reread(nil, c.Frozen()); c.Set().Rule("u1").Problems[0].Reason != ruleset.ReasonForeignRule {
		t.Errorf("frozen because of %v after the thaw", c.Set().Rule("u1").Problems)
	}
}

func TestAThawReadsTheRulesAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(network().MaxUnavailable("1").Obj()).Build()
	c, _ := newRules()
	c.put(network().Obj()) // as a CRD without the field has it
	c.freeze(&ruleset.Problem{Reason: ruleset.ReasonForeignCRD})
	c.thaw(t.Context(), live, func(_ time.Duration, f func()) { f() }, c.Frozen(), settled)
	if r := c.Set().Named("net"); r.Mode != ruleset.Enforced || !r.Limited() || c.Frozen() != nil {
		t.Errorf("mode %s, limited %t, frozen %v", r.Mode, r.Limited(), c.Frozen())
	}
	var late []func()
	c.put(network().Generation(2).Suspend(true).Obj())
	c.freeze(&ruleset.Problem{Reason: ruleset.ReasonForeignCRD})
	c.reread([]v1alpha1.NodeReadinessRule{*network().Obj()}, c.Frozen())
	if c.Set().Named("net").Mode != ruleset.Suspended {
		t.Error("an older list took the place of an edit")
	}
	c.freeze(&ruleset.Problem{Reason: ruleset.ReasonForeignCRD})
	c.thaw(t.Context(), live, func(_ time.Duration, f func()) { late = append(late, f) }, c.Frozen(), settled)
	c.freeze(&ruleset.Problem{Reason: ruleset.ReasonForeignCRD})
	if late[0](); c.Frozen() == nil {
		t.Error("the foreign CRD is back, and the rules are thawed")
	}
}

// TestARuleIsPutInForceAgainAfterAnotherController: while that controller managed the taint, it may have released
// nodes.
func TestARuleIsPutInForceAgainAfterAnotherController(t *testing.T) {
	theirs := map[string]foreignRule{"theirs": {managed: true,
		taint: ruleset.TaintID{Key: "example.com/net", Effect: corev1.TaintEffectNoSchedule}}}
	told := func(since time.Time) *build.RuleWrapper {
		hash := ruleset.Compile(network().Obj(), nil, now).SelectorHash
		return network().Created(now.Add(-time.Hour)).StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue).
			StatusInForce(since, hash)
	}
	for name, end := range map[string]func(*Rules){
		"their rule is gone": func(c *Rules) { c.setForeign(nil) },
		"another key": func(c *Rules) {
			c.put(told(now.Add(-time.Hour)).Generation(2).Taint("example.com/mine", "", corev1.TaintEffectNoSchedule).Obj())
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(now)
			c := NewRules(clock)
			before := told(now.Add(-time.Hour))
			c.put(before.Obj())
			c.setForeign(theirs)
			if r := c.Set().Rule("u1"); r.Mode != ruleset.Frozen || !r.InForceSince.Equal(now.Add(-time.Hour)) {
				t.Errorf("%s since %s, want it frozen", r.Mode, r.InForceSince)
			}
			clock.SetTime(now.Add(time.Minute))
			end(c)
			want := now.Add(time.Minute)
			is := func(tells string) {
				t.Helper()
				if r := c.Set().Rule("u1"); r.Mode != ruleset.Enforced || !r.InForceSince.Equal(want) {
					t.Errorf("%s: %s since %s, want %s", tells, r.Mode, r.InForceSince, want)
				}
			}
			is("in force")
			edited := c.Set().Rule("u1").Taint.Key
			c.put(told(now.Add(-time.Hour)).Generation(3).Taint(edited, "x", corev1.TaintEffectNoSchedule).Obj())
			is("by a status from before")
			want = now.Add(2 * time.Minute)
			c.put(told(want).Generation(3).Taint(edited, "x", corev1.TaintEffectNoSchedule).Obj())
			is("by the leader's status")
		})
	}
}
