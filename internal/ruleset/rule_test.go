// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

var start = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

// at is so many seconds after the start.
func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// valid is a valid rule, created 1000 seconds before the start, that was not processed.
func valid() *build.RuleWrapper {
	return build.MakeRule("cni").UID("u-cni").Generation(1).Created(at(-1000)).Selector("pool", "workers").
		Condition("example.com/CNI").Taint("readiness.k8s.io/cni", "pending", "NoSchedule")
}

// hash is the selector hash of a rule.
func hash(r *build.RuleWrapper) string { return Compile(r.Obj(), nil, start).SelectorHash }

func TestMode(t *testing.T) {
	invalid := func() *build.RuleWrapper { return valid().Taint("node.kubernetes.io/x", "", "NoSchedule") }
	cases := map[string]struct {
		rule *build.RuleWrapper
		want Mode
	}{
		"a valid rule is enforced":                 {valid(), Enforced},
		"a suspended one is not":                   {valid().Suspend(true), Suspended},
		"dry-run goes before suspend":              {valid().Suspend(true).DryRun(true), DryRun},
		"invalid goes before dry-run":              {invalid().Suspend(true).DryRun(true), Frozen},
		"deleting goes before invalid":             {invalid().Suspend(true).DryRun(true).Deleted(start), Deleting},
		"a valid rule that is deleted is deleting": {valid().Deleted(start), Deleting},
		"an unknown kind of evidence freezes":      {valid().Evidence(v1alpha1.Requirement{Name: "future"}), Frozen},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Compile(c.rule.Obj(), nil, start).Mode; got != c.want {
				t.Errorf("mode is %d, want %d", got, c.want)
			}
		})
	}
}

func TestFreeze(t *testing.T) {
	problem := Problem{Reason: ReasonForeignCRD, Message: "not ours"}
	r := Compile(valid().Deleted(start).Obj(), nil, start)
	frozen := r.Freeze(problem)
	if frozen.Mode != Frozen {
		t.Errorf("mode is %s", frozen.Mode)
	}
	if diff := cmp.Diff([]Problem{problem}, frozen.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if r.Mode != Deleting || len(r.Problems) != 0 {
		t.Error("the rule itself was changed")
	}
}

func TestInForce(t *testing.T) {
	compiled := func(r *build.RuleWrapper, at time.Time) *Rule { return Compile(r.Obj(), nil, at) }
	known := func() *build.RuleWrapper {
		return valid().StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue)
	}
	told := func(since int) *build.RuleWrapper { return known().StatusInForce(at(since), hash(valid())) }
	tried := func(since int) *build.RuleWrapper { return known().DryRun(true).StatusDryRun(at(since)) }
	theirs := func(generation int64, results v1alpha1.DryRunResults) *build.RuleWrapper { // of the incumbent controller
		r := valid().Generation(2).StatusNode("n1", v1alpha1.TaintPresent)
		r.Status.ObservedGeneration, r.Status.DryRunResults = generation, &results
		return r
	}
	cases := map[string]struct {
		rule  *build.RuleWrapper
		prev  *Rule
		since time.Time
		just  bool
	}{
		"a rule that was not processed is in force since its creation": {rule: valid(), since: at(-1000), just: true},
		"one that was edited before, and perhaps was suspended, is put in force now": {
			rule: valid().Generation(2), since: at(0), just: true,
		},
		"one that was edited before, and perhaps was in force, is in dry-run since now": {
			rule: valid().Generation(2).DryRun(true), since: at(0), just: true,
		},
		"one that was only compiled before still is": {
			rule: valid(), prev: compiled(valid(), at(-20)), since: at(-1000), just: true,
		},
		"what the status says holds": {rule: told(-300), since: at(-300)},
		"a status without the time, as in dry-run, means that it was put in force now": {
			rule: known(), since: at(0), just: true,
		},
		"that stays so until the status says it": {
			rule: known(), prev: compiled(known(), at(-20)), since: at(-20), just: true,
		},
		"the end of dry-run puts it in force": {
			rule: known().Generation(3), prev: compiled(known().Generation(2).DryRun(true), at(-20)), since: at(0), just: true,
		},
		"the end of suspension puts it in force": {
			rule: known().Generation(3), prev: compiled(known().Generation(2).Suspend(true), at(-20)), since: at(0), just: true,
		},
		"the end of a suspension that was seen while it was invalid puts it in force": {
			rule:  told(-300).Generation(3),
			prev:  compiled(told(-300).Generation(2).Suspend(true).Taint("", "", "NoSchedule"), at(-20)),
			since: at(0), just: true,
		},
		"so does the end of such a dry-run": {
			rule: told(-300).Generation(3),
			prev: compiled(told(-300).Generation(2).DryRun(true).Taint("", "", "NoSchedule"), at(-20)), since: at(0), just: true,
		},
		"the end of a dry-run so short that the status does not know of it puts it in force": {
			rule: told(-300).Generation(3),
			prev: compiled(told(-300).Generation(2).DryRun(true), at(-20)), since: at(0), just: true,
		},
		"a status from before that dry-run does not undo it later on": {
			rule:  told(-300).Generation(3),
			prev:  Compile(told(-300).Generation(3).Obj(), compiled(told(-300).Generation(2).DryRun(true), at(-20)), at(-10)),
			since: at(-10), just: true,
		},
		"a status from after it says": {
			rule:  known().Generation(3).StatusInForce(at(-10), hash(valid())),
			prev:  Compile(told(-300).Generation(3).Obj(), compiled(told(-300).Generation(2).DryRun(true), at(-20)), at(-9)),
			since: at(-10),
		},
		"a status by a clock that was a day ahead puts it in force": {
			rule: told(86400), prev: compiled(told(86400), at(86400)), since: at(0), just: true,
		},
		"and that stays so": {rule: told(86400), prev: compiled(told(86400), at(-20)), since: at(-20), just: true},
		"a status of a new rule holds by a clock that is far behind the API server's": {
			rule: told(4000).Created(at(4000)), prev: compiled(valid().Created(at(4000)), at(-20)), since: at(4000),
		},
		"by such a clock, an edited selector does not put it in force before its creation": {
			rule: told(4000).Created(at(4000)).Selector("zone", "a"), since: at(4000), just: true,
		},
		"a status by a clock that is a minute ahead holds": {rule: told(60), since: at(60)},
		"an edited selector puts it in force": {
			rule: told(-300).Selector("zone", "a"), prev: compiled(known(), at(-20)), since: at(0), just: true,
		},
		"an edited selector puts it in force, also if it was edited while no replica ran": {
			rule: told(-300).Selector("zone", "a"), since: at(0), just: true,
		},
		"an edited selector puts it in force, also before the operator has processed it": {
			rule: valid().Selector("zone", "a"), prev: compiled(valid(), at(-20)), since: at(0), just: true,
		},
		"one that was invalid, before it was processed, is put in force when it is fixed": {
			rule: valid().Generation(2), prev: compiled(valid().Taint("", "", "NoSchedule"), at(-20)), since: at(0), just: true,
		},
		"a rule of the incumbent controller, which writes other conditions, is in force since its creation": {
			rule: theirs(2, v1alpha1.DryRunResults{}), since: at(-1000), just: true,
		},
		"so is one that was never edited": {
			rule: theirs(0, v1alpha1.DryRunResults{}).Generation(1), since: at(-1000), just: true,
		},
		"one that was in dry-run there, and was edited since, is put in force now": {
			rule: theirs(0, v1alpha1.DryRunResults{Summary: "would add 4 taints"}), since: at(0), just: true,
		},
		"so is one that was in force there, then in dry-run, and was edited since": {
			rule: theirs(1, v1alpha1.DryRunResults{Summary: "would add 4 taints"}).Generation(3), since: at(0), just: true,
		},
		"so is one that was in force there, and was edited since": {
			rule: theirs(1, v1alpha1.DryRunResults{}), since: at(0), just: true,
		},
		"one that was put in dry-run there after its creation is in dry-run since now": {
			rule: theirs(1, v1alpha1.DryRunResults{Summary: "would add 4 taints"}).DryRun(true), since: at(0), just: true,
		},
		"in dry-run it is judged as if it were put in force when that was first seen": {
			rule: told(-300).DryRun(true), since: at(0), just: true,
		},
		"in dry-run that does not move": {
			rule: known().DryRun(true), prev: compiled(known().DryRun(true), at(-20)), since: at(-20), just: true,
		},
		"after a restart, the status says since when it is in dry-run": {rule: tried(-300), since: at(-300)},
		"but not by a clock that was a day ahead":                      {rule: tried(86400), since: at(0), just: true},
		"nor if that was another dry-run": {
			rule: tried(-300), prev: compiled(known(), at(-20)), since: at(0), just: true,
		},
		"a dry-run of a rule that was not processed began with the rule": {
			rule: valid().DryRun(true), since: at(-1000), just: true,
		},
		"a suspended rule is not in force": {rule: valid().Suspend(true)},
		"nor is one that is being deleted": {rule: valid().Deleted(start)},
		"nor is one that is not valid":     {rule: valid().Taint("", "", "NoSchedule")},
		"the time has the status's seconds": {rule: known(), prev: compiled(known(), at(-20).Add(time.Millisecond)),
			since: at(-20), just: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Compile(c.rule.Obj(), c.prev, start)
			if diff := cmp.Diff(c.since, got.InForceSince); diff != "" {
				t.Errorf("in force since (-want +got):\n%s", diff)
			}
			if got.JustInForce != c.just {
				t.Errorf("just in force: %t, want %t", got.JustInForce, c.just)
			}
		})
	}
}

// TestGuardSince compiles a rule that was put in force 300 seconds before the start, and may get its guard later.
func TestGuardSince(t *testing.T) {
	told := func() *build.RuleWrapper {
		return valid().StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue).StatusInForce(at(-300), hash(valid()))
	}
	guarded := func() *build.RuleWrapper { return told().EvictionGuard(60) }
	without := Compile(told().Obj(), nil, at(-200))
	added := Compile(guarded().Generation(2).Obj(), without, at(-100))
	invalid := told().Generation(2)
	invalid.Spec.Conditions[0].Type = ""
	broken := Compile(invalid.Obj(), without, at(-100))
	for name, c := range map[string]struct {
		rule *build.RuleWrapper
		prev *Rule
		want time.Time
	}{
		"no guard":                            {told(), nil, time.Time{}},
		"a guard that was there at the start": {guarded(), nil, at(-300)},
		"a guard that is added":               {guarded().Generation(2), without, at(0)},
		"a guard that is added by the edit that makes the rule valid": {guarded().Generation(3), broken, at(0)},
		"a guard that was added, at an edit":                          {guarded().Generation(3), added, at(-100)},
		"a guard that is removed":                                     {told().Generation(3), added, time.Time{}},
	} {
		if got := Compile(c.rule.Obj(), c.prev, start).GuardSince; !got.Equal(c.want) {
			t.Errorf("%s: since %s, want %s", name, got, c.want)
		}
	}
}

func TestInForceSince(t *testing.T) {
	edited := func() *build.RuleWrapper {
		return valid().StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue).StatusInForce(at(-300), "other")
	}
	told := func(since int) *build.RuleWrapper { return edited().StatusInForce(at(since), hash(valid())) }
	before := Compile(edited().Obj(), nil, at(-20))
	dry := Compile(told(-300).DryRun(true).Obj(), nil, start)
	for name, c := range map[string]struct {
		rule  *build.RuleWrapper
		prev  *Rule
		since int
	}{
		"an edited selector puts it in force":          {edited(), nil, 0},
		"the end of dry-run puts it in force":          {told(-300), dry, 0},
		"the end of another controller":                {told(-300), nil, 0},
		"that stays so":                                {edited(), before, -20},
		"and when the status says it":                  {told(-20), before, -20},
		"after a restart, the status tells":            {told(-300), nil, -300},
		"a new rule is in force since its creation":    {valid(), nil, -1000},
		"in dry-run, it is judged as if it were now":   {told(-300).DryRun(true), nil, 0},
		"after a restart in dry-run, the status tells": {told(-300).DryRun(true).StatusDryRun(at(-300)), nil, -300},
	} {
		got := Compile(c.rule.Obj(), c.prev, start)
		if name == "the end of another controller" {
			theirs := Foreign{TaintIDOf(*got.Taint): "theirs"}
			got = NewSet(got).Yield(theirs, start).Yield(nil, start).All()[0]
		}
		if !got.InForceSince.Equal(at(c.since)) {
			t.Errorf("%s: since %s, want %s", name, got.InForceSince, at(c.since))
		}
	}
}

func TestExisting(t *testing.T) {
	r := Compile(valid().StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue).Obj(), nil,
		at(0).Add(400*time.Millisecond))
	cases := map[string]struct {
		created int
		want    bool
	}{
		"a node of the second before was there":        {-1, true},
		"a node of the same second closes the gate":    {0, false},
		"a node of a second after closes the gate too": {1, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := r.Existing(build.MakeNode("n").Created(at(c.created)).Obj()); got != c.want {
				t.Errorf("existing is %t, want %t", got, c.want)
			}
		})
	}
}

func TestInherited(t *testing.T) {
	cases := map[string]struct {
		rule *build.RuleWrapper
		want map[string]struct{}
	}{
		"the nodes that the incumbent's status calls Present": {
			rule: valid().StatusNode("n1", v1alpha1.TaintPresent).StatusNode("n2", v1alpha1.TaintAbsent).StatusNode("n3",
				v1alpha1.TaintPresent),
			want: map[string]struct{}{"n1": {}, "n3": {}},
		},
		"none where there is none": {rule: valid().StatusNode("n2", v1alpha1.TaintAbsent)},
		"those by a status of our own that are still the incumbent's; its own are cut short": {
			rule: func() *build.RuleWrapper {
				r := valid().StatusNode("n1", v1alpha1.TaintPresent).StatusNode("n2", v1alpha1.TaintPresent).
					StatusCondition(v1alpha1.ConditionReady, metav1.ConditionTrue)
				r.Status.NodeEvaluations[1].State = v1alpha1.NodeStateHeld
				return r
			}(),
			want: map[string]struct{}{"n1": {}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Compile(c.rule.Obj(), nil, start).Inherited); diff != "" {
				t.Errorf("inherited (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMaxUnavailable(t *testing.T) {
	cases := map[string]struct {
		limit    string
		released int
		want     int
	}{
		"a number is itself":              {"3", 100, 3},
		"0 means never":                   {"0", 100, 0},
		"a percentage rounds up":          {"30%", 11, 4},
		"a percentage of one node is one": {"1%", 1, 1},
		"a percentage of none is none":    {"30%", 0, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Compile(valid().MaxUnavailable(c.limit).Obj(), nil, start)
			if got := r.Limit.Of(c.released); got != c.want {
				t.Errorf("%s of %d is %d, want %d", c.limit, c.released, got, c.want)
			}
			if !r.Limited() {
				t.Error("it has no limit")
			}
		})
	}
	t.Run("without a limit there is none", func(t *testing.T) {
		r := Compile(valid().Obj(), nil, start)
		if got := r.Limit.Of(7); got != 7 || r.Limited() {
			t.Errorf("all of 7 is %d, limited is %t", got, r.Limited())
		}
	})
}

func TestMatches(t *testing.T) {
	cases := map[string]struct {
		rule *build.RuleWrapper
		want []bool // a node of the workers, one of the workers in zone b, one of others, one without labels
	}{
		"two labels": {build.MakeRule("r").Selector("pool", "workers").Selector("zone", "b"),
			[]bool{false, true, false, false}},
		"NotIn, also without it": {build.MakeRule("r").SelectorExpression("pool", "NotIn", "others"),
			[]bool{true, true, false, true}},
		"DoesNotExist": {build.MakeRule("r").SelectorExpression("zone", "DoesNotExist"),
			[]bool{true, false, true, true}},
		"an empty one: nothing": {build.MakeRule("r"), []bool{false, false, false, false}},
		"an invalid one: nothing": {build.MakeRule("r").SelectorExpression("pool", "Like", "w*"),
			[]bool{false, false, false, false}},
		"a broken value: nothing": {build.MakeRule("r").SelectorExpression("pool", "In"),
			[]bool{false, false, false, false}},
		"a label and an expression": {build.MakeRule("r").Selector("pool", "workers").SelectorExpression("zone", "Exists"),
			[]bool{false, true, false, false}},
	}
	nodes := []map[string]string{{"pool": "workers"}, {"pool": "workers", "zone": "b"}, {"pool": "others"}, nil}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Compile(c.rule.Obj(), nil, start)
			var got []bool
			for _, labels := range nodes {
				got = append(got, r.Matches(labels))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("matches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectorHash(t *testing.T) {
	r := func() *build.RuleWrapper {
		return build.MakeRule("r").Selector("b", "2").Selector("a", "1").SelectorExpression("zone", "In", "x", "y")
	}
	other := build.MakeRule("other").Selector("a", "1").Selector("b", "2").SelectorExpression("zone", "In", "x", "y")
	if hash(r()) != hash(other) {
		t.Error("the same selector gives two hashes")
	}
	if hash(r()) == hash(r().Selector("a", "2")) || hash(r()) == hash(r().SelectorExpression("zone", "Exists")) {
		t.Error("two selectors give the same hash")
	}
}

func TestCompileCopies(t *testing.T) {
	obj := valid().Obj()
	r := Compile(obj, nil, start)
	obj.Spec.Taint.Value = "changed"
	obj.Spec.Conditions[0].Type = "changed"
	obj.Spec.NodeSelector.MatchLabels["pool"] = "changed"
	if diff := cmp.Diff(&valid().Spec, r.Spec); diff != "" {
		t.Errorf("a later change of the object reaches the compiled rule (-want +got):\n%s", diff)
	}
	if !r.Matches(map[string]string{"pool": "workers"}) || r.Taint.Value != "pending" {
		t.Error("a later change of the object reaches what was compiled")
	}
}

func TestAChangeOfTheStatusCompilesNothing(t *testing.T) {
	rule := valid().Evidence(v1alpha1.Requirement{Name: "kernel",
		CEL: &v1alpha1.CELRequirement{Expression: "node.spec.unschedulable"}}).Obj()
	before := Compile(rule, nil, start)
	rule.Status.ObservedGeneration = 1
	after := Compile(rule, before, at(1))
	if &after.Requirements[0] != &before.Requirements[0] || len(after.Problems) > 0 {
		t.Errorf("compiled again: %v", after.Problems)
	}
	rule.Spec.Requirements[0].CEL.Expression, rule.Generation = "node.spec", 2
	if edited := Compile(rule, after, at(2)); len(edited.Problems) != 1 || edited.Mode != Frozen {
		t.Errorf("the edited rule is %s: %v", edited.Mode, edited.Problems)
	}
}

func TestKeys(t *testing.T) {
	r := Compile(valid().Obj(), nil, start)
	got := []string{r.RecordKey(), r.MarkerKey(), r.OldMarkerKey()}
	want := []string{
		"nodegate.io/rule-u-cni", "readiness.k8s.io/bootstrap-completed-u-cni",
		"readiness.k8s.io/bootstrap-completed-cni",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestEquivalent(t *testing.T) {
	base := Compile(valid().Obj(), nil, start)
	annotated := func(key, value string) *Rule {
		r := valid()
		r.Annotations = map[string]string{key: value}
		return Compile(r.Obj(), base, at(5))
	}
	cases := map[string]struct {
		other *Rule
		want  bool
	}{
		"a write to labels changes nothing": {Compile(valid().Obj(), base, at(5)), true},
		"an edit does":                      {Compile(valid().Generation(2).Obj(), base, at(5)), false},
		"deletion does":                     {Compile(valid().Deleted(start).Obj(), base, at(5)), false},
		"another rule of the name does":     {Compile(valid().UID("u-2").Obj(), nil, at(5)), false},
		"a field that was pruned does":      {Compile(valid().MaxUnavailable("1").Obj(), base, at(5)), false},
		"freezing does":                     {base.Freeze(Problem{}), false},
		"another annotation does not":       {annotated("example.com/a", "true"), true},
		"to remove markers does":            {annotated(v1alpha1.RemoveMarkersAnnotation, "true"), false},
		"to continue another rule does":     {annotated(v1alpha1.SuccessorAnnotation, "u-former"), false},
		"being in force since another time does": {
			Compile(valid().StatusInForce(at(-900), base.SelectorHash).Obj(), base, at(5)), false,
		},
		"a status that says the same time does not": {
			Compile(valid().StatusInForce(at(-1000), base.SelectorHash).Obj(), base, at(5)), true,
		},
		"what is inherited does": {
			Compile(valid().StatusNode("n", v1alpha1.TaintPresent).Obj(), base, at(5)), false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := base.Equivalent(c.other); got != c.want {
				t.Errorf("equivalent is %t, want %t", got, c.want)
			}
		})
	}
	inheriting := func(node string) *Rule {
		return Compile(valid().StatusNode(node, v1alpha1.TaintPresent).Obj(), base, at(5))
	}
	if inheriting("n1").Equivalent(inheriting("n2")) {
		t.Error("equivalent, although the taint is inherited on another node")
	}
}
