// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/test/build"
)

func member(name, uid string, created int) *Rule {
	return Compile(build.MakeRule(name).UID(uid).Created(at(created)).Obj(), nil, start)
}

func TestSet(t *testing.T) {
	base := NewSet(member("c", "1", 0), member("b", "2", 5), member("a", "3", 5))
	cases := map[string]struct {
		set  *Set
		want []string
	}{
		"older ones first, then by name":            {base, []string{"c", "a", "b"}},
		"with a later version of one":               {base.With(member("c", "1", 0)), []string{"c", "a", "b"}},
		"with one that was re-created under a name": {base.With(member("c", "9", 9)), []string{"a", "b", "c"}},
		"without one":                                {base.Without("2"), []string{"c", "a"}},
		"without one that is not there":              {base.Without("7"), []string{"c", "a", "b"}},
		"the set itself is not changed by any of it": {base, []string{"c", "a", "b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, namesOf(c.set.All())); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			for _, r := range c.set.All() {
				if c.set.Rule(r.UID) != r || c.set.Named(r.Name) != r {
					t.Errorf("%s is not found by its UID or name", r.Name)
				}
			}
		})
	}
	replaced := base.With(member("c", "9", 9))
	if replaced.Rule("1") != nil {
		t.Error("the rule that was there before is still found by its UID")
	}
	if base.Rule("missing") != nil || base.Named("missing") != nil {
		t.Error("a rule that is not there is found")
	}
}

// TestTaintsOfRules: key and effect identify a taint. The oldest rule with a taint manages it.
func TestTaintsOfRules(t *testing.T) {
	rule := func(name string, created int, effect corev1.TaintEffect) *Rule {
		return Compile(valid().Named(name).UID("u-"+name).Created(at(created)).Taint("readiness.k8s.io/cni", name,
			effect).Obj(), nil, start)
	}
	older, younger := rule("older", 0, "NoSchedule"), rule("younger", 1, "NoSchedule")
	other, none := rule("other", 2, "NoExecute"), Compile(valid().Untainted().Health("node_ready").Obj(), nil, start)
	if m := NewSet(younger, older, other).Manager(younger.Taint); m != older {
		t.Errorf("%s manages the taint", m.Name)
	}
	for _, c := range []struct {
		a, b *Rule
		want bool
	}{{older, younger, true}, {older, other, false}, {older, none, false}, {none, older, false}, {none, none, false},
		{older, nil, false}} {
		if c.a.SameTaint(c.b) != c.want {
			t.Errorf("%v and %v: the same taint is %t", c.a.Taint, c.b, !c.want)
		}
	}
	base := corev1.Taint{Key: "k", Value: "v", Effect: "NoExecute", TimeAdded: new(metav1.NewTime(start))}
	for name, edit := range map[string]func(*corev1.Taint){
		"key":    func(t *corev1.Taint) { t.Key = "other" },
		"value":  func(t *corev1.Taint) { t.Value = "other" },
		"effect": func(t *corev1.Taint) { t.Effect = "NoSchedule" },
		"time":   func(t *corev1.Taint) { t.TimeAdded = new(metav1.NewTime(at(1))) },
	} {
		edited := *base.DeepCopy()
		edit(&edited)
		if SameTaints([]corev1.Taint{base}, []corev1.Taint{edited}) {
			t.Errorf("a change of its %s is not seen", name)
		}
	}
	if !SameTaints([]corev1.Taint{base}, []corev1.Taint{*base.DeepCopy()}) {
		t.Error("a copy is not the same")
	}
}

// TestForeign: rules with the taint of another controller's rule are frozen, except those that are being deleted, and
// are the same ones while nothing changes.
func TestForeign(t *testing.T) {
	content := func(key, effect string, dryRun any) map[string]any {
		return map[string]any{"spec": map[string]any{"dryRun": dryRun,
			"taint": map[string]any{"key": key, "effect": effect}}}
	}
	f := Foreign{}
	for name, object := range map[string]map[string]any{
		"theirs":            content("example.com/a", "NoSchedule", nil),
		"a-namesake":        content("example.com/a", "NoSchedule", false),
		"tried":             content("example.com/b", "NoSchedule", true),
		"of-another-effect": content("example.com/c", "NoExecute", nil),
		"without-a-spec":    {},
		"of-the-future":     {"spec": map[string]any{"taint": []any{"example.com/b"}, "dryRun": "no"}},
	} {
		if id, managed := ForeignTaint(object); managed {
			f.Add(name, id)
		}
	}
	set := chain("a", "b: a", "c").Resolve(Known{Foreign: f}, NewSet())
	if p := set.Named("a").Problems; len(p) != 1 || p[0].Reason != ReasonForeignRule ||
		!strings.Contains(p[0].Message, "rule a-namesake of another controller") || !set.Named("a").Spared() {
		t.Errorf("a: %v", p)
	}
	if b := set.Named("b"); b.Spared() || b.Problems[0].Reason != ReasonUnavailable ||
		!strings.Contains(b.Problems[0].Message, "requires rule a, which is frozen: spec.taint: rule a-namesake") {
		t.Errorf("b, which has another taint: %v", b.Problems)
	}
	modes := map[string]Mode{}
	for _, r := range set.All() {
		modes[r.Name] = r.Mode
	}
	if diff := cmp.Diff(map[string]Mode{"a": Frozen, "b": Frozen, "c": Enforced}, modes); diff != "" {
		t.Errorf("b requires a (-want +got):\n%s", diff)
	}
	successor := *chain("a").Named("a")
	successor.former.record = "nodegate.io/rule-u-former"
	if p := f.Problem(&successor); !strings.Contains(p.Message, "run kubectl nodegate convert --live --to=") {
		t.Errorf("the other rule may be the one that the rule continues: %s", p.Message)
	}
	again := set.Resolve(Known{}, set)
	if again.Named("a") != set.Named("a") || !again.Foreign().Has(set.Named("a").Taint) {
		t.Error("what is not known changes nothing")
	}
	raw, twice := chain("a"), Known{Foreign: f, KeyPrefixes: []string{"example.org/"}}
	first := raw.Resolve(twice, NewSet())
	if next := raw.Resolve(twice, first); next.Named("a") != first.Named("a") || len(next.Named("a").Problems) != 2 {
		t.Errorf("frozen by two problems, and not the same rule again: %v", next.Named("a").Problems)
	}
	edited := *chain("a").Named("a")
	edited.Taint = &corev1.Taint{Key: "example.com/new", Effect: corev1.TaintEffectNoSchedule}
	pending := Known{Foreign: f, Unavailable: func(r *Rule) *Problem {
		if r.Taint.Key == edited.Taint.Key {
			return &Problem{Reason: ReasonPending}
		}
		return nil
	}}
	if r := NewSet(&edited).Resolve(pending, chain("a")).Named("a"); r.Mode != Frozen || r.Taint.Key != edited.Taint.Key {
		t.Errorf("while evidence is read, the former version is in force with the other controller's taint: %s", r.Taint.Key)
	}
	free := chain("a").Resolve(Known{Foreign: Foreign{}}, set)
	if free.Named("a").Mode != Enforced || len(free.Foreign()) > 0 {
		t.Error("a is frozen, and the other rule is gone")
	}
}
