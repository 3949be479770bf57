// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/test/build"
)

// chain makes rules of "name: required required"; the first is the oldest.
func chain(lines ...string) *Set {
	var rules []*Rule
	born := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, line := range lines {
		name, required, _ := strings.Cut(line, ":")
		r := build.MakeRule(name).UID("uid-"+name).Created(born.Add(time.Duration(i)*time.Hour)).Selector("pool", "a").
			Condition("example.com/Ready").Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule).
			After(strings.Fields(required)...)
		rules = append(rules, Compile(r.Obj(), nil, born))
	}
	return NewSet(rules...)
}

func TestEachRuleComesAfterThoseThatItRequires(t *testing.T) {
	for name, tc := range map[string]struct {
		set  *Set
		want []string
	}{
		"by age, where nothing is required": {chain("b", "a"), []string{"b", "a"}},
		"an older rule after a younger one": {chain("last: middle", "middle: first", "first"),
			[]string{"first", "middle", "last"}},
		"a diamond":               {chain("d: b c", "b: a", "c: a", "a"), []string{"a", "b", "c", "d"}},
		"one that does not exist": {chain("a: missing"), []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, namesOf(tc.set.Ordered())); diff != "" {
				t.Error(diff)
			}
			if got := tc.set.freezeInvalid(NewSet()); got != tc.set {
				t.Error("a set without a cycle is changed")
			}
		})
	}
}

func TestOnlyTheRulesOfACycleAreFrozenAndStayTheSameOnes(t *testing.T) {
	set := chain("a: b", "b: c", "c: a", "outside: a", "free")
	broken := set.freezeInvalid(NewSet())
	for _, r := range broken.All() {
		want := slices.Contains([]string{"a", "b", "c"}, r.Name)
		if (r.Mode == Frozen) != want {
			t.Errorf("%s: frozen %t", r.Name, r.Mode == Frozen)
		}
	}
	if got, want := broken.Named("a").Problems[0].String(),
		"spec.requirements: rules require each other in a cycle: a requires b requires c requires a"; got != want {
		t.Errorf("%q", got)
	}
	if got := broken.Named("a").Problems[0].Reason; got != ReasonCycle {
		t.Errorf("reason %s", got)
	}
	if again := set.freezeInvalid(broken); again.Named("b") != broken.Named("b") {
		t.Error("an unchanged rule is another one")
	}
	if again := broken.freezeInvalid(broken); len(again.Named("b").Problems) != 1 {
		t.Errorf("the problem is told more than once: %v", again.Named("b").Problems)
	}
	if self := chain("a: a").freezeInvalid(NewSet()); self.Named("a").Mode != Frozen {
		t.Error("a rule that requires itself is not frozen")
	}
}

func TestWhatRequiresAFrozenRuleIsFrozenWithIt(t *testing.T) {
	set := chain("last: middle", "middle: first", "first", "free")
	problem := Problem{Field: "spec.requirements[0]", Reason: "EvidencePending", Message: "has not been read yet"}
	set = set.With(set.Named("first").Freeze(problem))
	frozen := set.freezeDependents(NewSet())
	for _, r := range frozen.All() {
		if want := r.Name != "free"; (r.Mode == Frozen) != want {
			t.Errorf("%s: frozen %t", r.Name, r.Mode == Frozen)
		}
	}
	if p := frozen.Named("last").Problems[0]; p.Reason != problem.Reason || p.String() !=
		"spec.requirements[0].ruleSatisfied: it requires rule first, which is frozen: spec.requirements[0]: has not been "+
			"read yet" {
		t.Errorf("%s: %s", p.Reason, p)
	}
	if again := set.freezeDependents(frozen); again.Named("last") != frozen.Named("last") {
		t.Error("an unchanged rule is another one")
	}
	invalid, deleted := *set.Named("first"), chain("b: first", "first")
	invalid.Mode = Deleting // a deleted rule keeps its problems
	if b := deleted.With(&invalid).freezeDependents(NewSet()).Named("b"); b.Mode != Enforced {
		t.Errorf("a rule that requires a deleted one, which was invalid, is %s: %v", b.Mode, b.Problems)
	}
	if free := chain("b: a", "a"); free.freezeDependents(NewSet()) != free {
		t.Error("a set without a frozen rule is changed")
	}
}

func TestWhatRequiresASuspendedRuleIsSuspendedWithIt(t *testing.T) {
	set := chain("last: middle", "middle: first", "first", "free", "gone: first")
	suspended, deleted := *set.Named("first"), *set.Named("gone")
	suspended.Mode, deleted.Mode = Suspended, Deleting
	before := set.With(&suspended).With(&deleted)
	after := before.freezeDependents(NewSet())
	for name, want := range map[string]Mode{"last": Suspended, "middle": Suspended, "first": Suspended,
		"free": set.Named("free").Mode, "gone": Deleting} {
		if got := after.Named(name).Mode; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if p := after.Named("last").Problems[0]; p.Reason != ReasonSuspended || p.String() !=
		"spec.requirements[0].ruleSatisfied: it requires rule first, which is suspended" {
		t.Errorf("%s: %s", p.Reason, p)
	}
	if again := before.freezeDependents(after); again.Named("last") != after.Named("last") {
		t.Error("an unchanged rule is another one")
	}
	if again := after.freezeDependents(after); again != after {
		t.Error("rules that are suspended already are changed")
	}
}

func TestARuleOfACycleThatIsDeletedIsNotFrozen(t *testing.T) {
	set := chain("a: b", "b: a")
	deleted := *set.Named("a")
	deleted.Mode = Deleting
	broken := set.With(&deleted).freezeInvalid(NewSet()).freezeDependents(NewSet())
	if a, b := broken.Named("a").Mode, broken.Named("b").Mode; a != Deleting || b != Frozen {
		t.Errorf("a is %s, b is %s", a, b)
	}
}

func TestRulesThatReadWhatTheyPublishAreInvalid(t *testing.T) {
	born := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rule := func(name, reads, publishes string) *build.RuleWrapper {
		r := build.MakeRule(name).UID("uid-"+name).Created(born).Selector("pool", "a").Condition("example.com/" + reads)
		if publishes == "" {
			return r.Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule)
		}
		return r.Publish("example.com/" + publishes)
	}
	aged := rule("b", "X", "")
	aged.Spec.Conditions[0] = v1alpha1.ConditionRequirement{Type: "example.com/A", RequiredStatus: "True",
		MaxAgeSeconds: new(int32(60))}
	for name, c := range map[string]struct {
		rules []*build.RuleWrapper
		want  map[string]string
	}{
		"its own": {[]*build.RuleWrapper{rule("a", "A", "A")},
			map[string]string{"a": ReasonCycle}},
		"two rules": {[]*build.RuleWrapper{rule("a", "B", "A"), rule("b", "A", "B")},
			map[string]string{"a": ReasonCycle, "b": ReasonCycle}},
		"by a required rule": {[]*build.RuleWrapper{rule("a", "X", "A").After("b"), rule("b", "A", "")},
			map[string]string{"a": ReasonCycle, "b": ReasonCycle}},
		"one only reads":              {[]*build.RuleWrapper{rule("a", "X", "A"), rule("b", "A", "B")}, nil},
		"a publisher that is deleted": {[]*build.RuleWrapper{rule("a", "B", "A").Deleted(born), rule("b", "A", "B")}, nil},
		"an age for what is written only when it changes": {[]*build.RuleWrapper{rule("a", "X", "A"), aged},
			map[string]string{"b": evidence.ReasonInvalid}},
		"an age for what another component writes": {[]*build.RuleWrapper{rule("a", "X", "B"), aged}, nil},
		"an age for what a rule in dry-run does not write": {[]*build.RuleWrapper{rule("a", "X", "A").DryRun(true), aged},
			nil},
		"an age for what a rule writes on other nodes": {[]*build.RuleWrapper{rule("a", "X", "A").Selector("pool", "b"),
			aged}, nil},
		"two rules, one in dry-run": {[]*build.RuleWrapper{rule("a", "B", "A"), rule("b", "A", "B").DryRun(true)}, nil},
		"two rules of different nodes": {
			[]*build.RuleWrapper{rule("a", "B", "A"), rule("b", "A", "B").Selector("pool", "b")}, nil},
		"its own, in dry-run": {[]*build.RuleWrapper{rule("a", "A", "A").DryRun(true)},
			map[string]string{"a": ReasonCycle}},
	} {
		t.Run(name, func(t *testing.T) {
			var compiled []*Rule
			for _, r := range c.rules {
				compiled = append(compiled, Compile(r.Obj(), nil, born))
			}
			var got map[string]string
			for _, r := range NewSet(compiled...).freezeInvalid(NewSet()).All() {
				if r.Mode == Frozen {
					if got == nil {
						got = map[string]string{}
					}
					got[r.Name] = r.Problems[0].Reason
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Rules that wait for each other's taints would never remove them.
func TestACycleOfTaints(t *testing.T) {
	born := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rule := func(name, taint, waits string) *build.RuleWrapper {
		return build.MakeRule(name).UID("u-"+name).Created(born).Selector("pool", "workers").
			Taint("example.com/"+taint, "", corev1.TaintEffectNoSchedule).Without("example.com/" + waits)
	}
	for name, c := range map[string]struct {
		rules []*build.RuleWrapper
		want  []string
	}{
		"two rules": {[]*build.RuleWrapper{rule("a", "A", "B"), rule("b", "B", "A")}, []string{"a", "b"}},
		"one way":   {[]*build.RuleWrapper{rule("a", "A", "B"), rule("b", "B", "other")}, nil},
		"by a rule's name": {[]*build.RuleWrapper{rule("a", "A", "B"), rule("b", "B", "other").After("a")},
			[]string{"a", "b"}},
		"on different nodes":  {[]*build.RuleWrapper{rule("a", "A", "B"), rule("b", "B", "A").Selector("pool", "gpu")}, nil},
		"one that is deleted": {[]*build.RuleWrapper{rule("a", "A", "B"), rule("b", "B", "A").Deleted(born)}, nil},
		"one in dry-run":      {[]*build.RuleWrapper{rule("a", "A", "B"), rule("b", "B", "A").DryRun(true)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var compiled []*Rule
			for _, r := range c.rules {
				compiled = append(compiled, Compile(r.Obj(), nil, born))
			}
			var got []string
			for _, r := range NewSet(compiled...).freezeInvalid(NewSet()).All() {
				if r.Mode == Frozen {
					got = append(got, r.Name)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("frozen (-want +got):\n%s", diff)
			}
		})
	}
}
