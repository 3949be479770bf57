// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

// TestATaintThatMayBeForeign: until the rules of another controller have been read, each rule waits that is not known
// to have a taint of its own, even if it is being deleted or in dry-run.
func TestATaintThatMayBeForeign(t *testing.T) {
	rule := func(name, key string) *build.RuleWrapper {
		return build.MakeRule(name).UID("u-"+name).Created(start).Selector("pool", "a").Condition("example.com/Ready").
			Taint("example.com/"+key, "", corev1.TaintEffectNoSchedule)
	}
	var rules []*Rule
	for _, r := range []*build.RuleWrapper{rule("trusted", "a"), rule("its-twin", "a"), rule("new", "b"),
		rule("deleted", "c").Deleted(start), rule("dry-run", "d").DryRun(true),
		rule("untainted", "").Untainted().Health("node_ready")} {
		rules = append(rules, Compile(r.Obj(), nil, start))
	}
	assumed := NewSet(rules...).AssumedForeign(func(r *Rule) bool { return r.Name == "trusted" })
	set := NewSet(rules...).Resolve(Known{Foreign: assumed}, NewSet())
	want := map[string]Mode{"trusted": Enforced, "its-twin": Enforced, "new": Frozen, "deleted": Frozen,
		"dry-run": Frozen, "untainted": Enforced}
	if diff := cmp.Diff(want, modes(set)); diff != "" {
		t.Errorf("before they are read (-want +got):\n%s", diff)
	}
	if says := set.Named("new").Problems[0].Message; !strings.Contains(says, "cannot be read") {
		t.Errorf("it says %q", says)
	}
	for key, perhaps := range map[string]bool{"a": false, "b": true, "of-no-rule": true} {
		taint := &corev1.Taint{Key: "example.com/" + key, Effect: corev1.TaintEffectNoSchedule}
		if set.PerhapsForeign(taint) != perhaps {
			t.Errorf("before they are read: taint %s may be foreign: %t", key, !perhaps)
		}
		theirs := Foreign{}
		if id, managed := ForeignTaint(map[string]any{}); managed {
			theirs.Add("without-a-taint", id)
		}
		if set.WithForeign(theirs).PerhapsForeign(taint) {
			t.Errorf("after they are read: taint %s may be foreign", key)
		}
	}
	theirs := Foreign{}
	for _, r := range rules {
		if r.Taint != nil {
			theirs.Add("theirs", TaintIDOf(*r.Taint))
		}
	}
	maps.Copy(want, map[string]Mode{"trusted": Frozen, "its-twin": Frozen, "deleted": Deleting, "dry-run": DryRun})
	if diff := cmp.Diff(want, modes(NewSet(rules...).Resolve(Known{Foreign: theirs}, set))); diff != "" {
		t.Errorf("when they are read, and have all taints (-want +got):\n%s", diff)
	}
}

func modes(s *Set) map[string]Mode {
	out := map[string]Mode{}
	for _, r := range s.All() {
		out[r.Name] = r.Mode
	}
	return out
}

// TestTheEndOfAnotherController: a rule gets its taint back at the start. It is put in force then, and its status from
// before no longer counts.
func TestTheEndOfAnotherController(t *testing.T) {
	told := func(since int) *build.RuleWrapper {
		return valid().StatusCondition(v1alpha1.ConditionReady, "True").StatusInForce(at(since), hash(valid()))
	}
	for name, c := range map[string]struct {
		rule         *build.RuleWrapper
		since, guard time.Time
	}{
		"in force":                         {rule: told(-300), since: at(0)},
		"in force since the same second":   {rule: told(0), since: at(1)},
		"with an eviction guard":           {rule: told(-300).EvictionGuard(60), since: at(0), guard: at(0)},
		"suspended":                        {rule: told(-300).Suspend(true)},
		"in dry-run, which does not yield": {rule: told(-300).DryRun(true).StatusDryRun(at(-200)), since: at(-200)},
	} {
		t.Run(name, func(t *testing.T) {
			r := Compile(c.rule.Obj(), nil, start)
			yielded := NewSet(r).Yield(Foreign{TaintIDOf(*r.Taint): "theirs"}, start)
			got := yielded.Yield(Foreign{}, start).All()[0]
			if !got.InForceSince.Equal(c.since) || !got.GuardSince.Equal(c.guard) {
				t.Errorf("in force since %s, guarded since %s, want %s and %s", got.InForceSince, got.GuardSince, c.since,
					c.guard)
			}
			again := Compile(c.rule.Obj(), got, at(60))
			if !again.InForceSince.Equal(c.since) {
				t.Errorf("by the status from before, it is in force since %s", again.InForceSince)
			}
		})
	}
}

// TestARuleThatContinuesAnother: after a change of the API group, a rule takes over what the former rule has written on
// nodes, but only once that rule is gone.
func TestARuleThatContinuesAnother(t *testing.T) {
	next := valid()
	next.Annotations = map[string]string{v1alpha1.SuccessorAnnotation: "u-former"}
	set := NewSet(Compile(next.Obj(), nil, start), member("former", "u-former", -2000))
	node := func(created int) *corev1.Node {
		return build.MakeNode("n").Label("pool", "workers").Created(at(created)).Obj()
	}
	if record, markers := set.Rule("u-cni").FormerKeys(node(-3000)); record != "" || len(markers) > 0 ||
		len(set.Successors()) > 0 {
		t.Errorf("the former rule is there, and its keys are %q, %q", record, markers)
	}
	alone := set.Without("u-former")
	record, markers := alone.Rule("u-cni").FormerKeys(node(-3000))
	_, young := alone.Rule("u-cni").FormerKeys(node(-500))
	if record != v1alpha1.RecordAnnotationPrefix+"u-former" || len(markers) <= len(young) ||
		len(alone.Successors()) != 1 || alone.Named("cni") != alone.Rule("u-cni") {
		t.Errorf("the former rule is gone, and its keys are %q, %q, and on a younger node %q", record, markers, young)
	}
	if set := alone.With(member("former", "u-former", -2000)); len(set.Successors()) > 0 {
		t.Error("the former rule is back, and the other one continues it")
	}
	if plain := NewSet(member("a", "u-a", 0)); len(plain.Successors()) > 0 {
		t.Error("a rule that continues none is a successor")
	}
}
