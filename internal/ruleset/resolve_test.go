// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/test/build"
)

// TestEvidenceThatIsNotThere: a rule is edited while the evidence of some of its versions cannot be read. The former
// version stays in force only while that of the new one is read for the first time.
func TestEvidenceThatIsNotThere(t *testing.T) {
	edited := func() *build.RuleWrapper { return valid().Generation(2) }
	pending, failed := Problem{Reason: ReasonPending}, Problem{Reason: ReasonUnavailable}
	for name, c := range map[string]struct {
		former, rule *build.RuleWrapper
		problems     map[int64]Problem // by the generation
		generation   int64
		mode         Mode
		reasons      []string
	}{
		"read for the first time": {former: valid(), rule: edited(), problems: map[int64]Problem{2: pending},
			generation: 1, mode: Enforced},
		"it cannot be read": {former: valid(), rule: edited(), problems: map[int64]Problem{2: failed},
			generation: 2, mode: Frozen, reasons: []string{ReasonUnavailable}},
		"that of both versions": {former: valid(), rule: edited(), problems: map[int64]Problem{1: failed, 2: pending},
			generation: 2, mode: Frozen, reasons: []string{ReasonPending}},
		"of a new rule": {rule: edited(), problems: map[int64]Problem{2: pending},
			generation: 2, mode: Frozen, reasons: []string{ReasonPending}},
		"of a rule that is suspended now": {former: valid(), rule: edited().Suspend(true),
			problems: map[int64]Problem{2: pending}, generation: 2, mode: Frozen, reasons: []string{ReasonPending}},
		"of a rule that was suspended before": {former: valid().Suspend(true), rule: edited(),
			problems: map[int64]Problem{2: pending}, generation: 2, mode: Frozen, reasons: []string{ReasonPending}},
		"of a rule that is being deleted": {former: valid(), rule: edited().Deleted(start),
			problems: map[int64]Problem{1: failed, 2: failed}, generation: 2, mode: Deleting},
		"of an invalid rule": {former: valid(), rule: edited().Taint("", "", "NoSchedule"),
			problems: map[int64]Problem{2: failed}, generation: 2, mode: Frozen, reasons: []string{evidence.ReasonInvalid}},
	} {
		t.Run(name, func(t *testing.T) {
			before := NewSet()
			if c.former != nil {
				before = NewSet(Compile(c.former.Obj(), nil, start))
			}
			got := NewSet(Compile(c.rule.Obj(), nil, start)).Resolve(Known{Unavailable: func(r *Rule) *Problem {
				if p, ok := c.problems[r.Generation]; ok {
					return &p
				}
				return nil
			}}, before).All()[0]
			var reasons []string
			for _, p := range got.Problems {
				reasons = append(reasons, p.Reason)
			}
			if got.Generation != c.generation || got.Mode != c.mode {
				t.Errorf("generation %d is %s, want generation %d, %s", got.Generation, got.Mode, c.generation, c.mode)
			}
			if diff := cmp.Diff(c.reasons, reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFrozenRuleHasTheProblemOfNow(t *testing.T) {
	r := Compile(valid().Obj(), nil, start)
	pending, failed := Problem{Reason: ReasonPending}, Problem{Reason: ReasonUnavailable}
	before := r.Freeze(pending)
	if r.FreezeLike(before, pending) != before {
		t.Error("the same problem makes it another rule")
	}
	if got := r.FreezeLike(before, failed).Problems; len(got) != 1 || got[0] != failed {
		t.Errorf("frozen by %v, want %v", got, failed)
	}
	if thawed := Compile(valid().Obj(), before, at(1)); thawed.Mode != Enforced || len(thawed.Problems) > 0 {
		t.Errorf("a rule that was frozen by the cluster is %s when it is compiled again: %v", thawed.Mode, thawed.Problems)
	}
}

func TestAnEditIsInForceWithTheSameDaemonSets(t *testing.T) {
	agent := build.MakeDaemonSet("kube-system", "agent").Tolerate("")
	before := NewSet(requires("r")).withDaemonSets(cluster(agent), NewSet())
	edited := requires("r", func(r *v1alpha1.NodeReadinessRule) { r.Spec.Taint.Value, r.Generation = "edited", 2 })
	if got := NewSet(edited).withDaemonSets(cluster(agent), before).All()[0]; got.Taint.Value != "edited" {
		t.Errorf("the former version is in force: generation %d", got.Generation)
	}
}

// TestForbiddenKeys: with prefixes, each key that a rule has on nodes must have one of them.
func TestForbiddenKeys(t *testing.T) {
	prefixes := []string{"example.com/", "example.org/"}
	rule := func(key string) *build.RuleWrapper { return valid().Taint(key, "", corev1.TaintEffectNoSchedule) }
	for name, c := range map[string]struct {
		rule     *build.RuleWrapper
		prefixes []string
		want     string // the field with the problem
	}{
		"an allowed taint":                 {rule("example.org/a"), prefixes, ""},
		"another taint":                    {rule("example.net/a"), prefixes, "spec.taint.key"},
		"any taint, without prefixes":      {rule("example.net/a"), nil, ""},
		"another taint of a deleted rule":  {rule("example.net/a").Deleted(start), prefixes, ""},
		"no taint":                         {valid().Untainted().Health("node_ready"), prefixes, ""},
		"an allowed completion annotation": {rule("example.com/a").CompletionAnnotation("example.com/b"), prefixes, ""},
		"another completion annotation": {rule("example.com/a").CompletionAnnotation("b"), prefixes,
			"spec.completionAnnotation"},
		"a timeout without a replacement": {rule("example.com/a").Timeout(60, 0, v1alpha1.TimeoutActionRelease), prefixes,
			""},
		"a replacement by its NodeClaim":    {rule("example.com/a").Replace(60, 1, ""), prefixes, ""},
		"an allowed annotation for another": {rule("example.com/a").Replace(60, 1, "example.org/b"), prefixes, ""},
		"another annotation for another": {rule("example.com/a").Replace(60, 1, "example.net/b"), prefixes,
			"spec.timeout.replace.annotation.key"},
	} {
		got := NewSet(Compile(c.rule.Obj(), nil, start)).Resolve(Known{KeyPrefixes: c.prefixes}, NewSet()).All()[0]
		field := ""
		if len(got.Problems) > 0 {
			field = got.Problems[0].Field
			if got.Mode != Frozen || got.Problems[0].Reason != ReasonForbiddenKey {
				t.Errorf("%s: %s, %v", name, got.Mode, got.Problems)
			}
		}
		if field != c.want {
			t.Errorf("%s: problem of %q, want %q", name, field, c.want)
		}
	}
	if !KeyAllowed(nil, "example.net/a") {
		t.Error("without prefixes, a key is not allowed")
	}
}

// TestReported: what other replicas read from the status of a rule.
func TestReported(t *testing.T) {
	const yes, no = "in force", "not in force"
	told := func(status metav1.ConditionStatus) *build.RuleWrapper {
		return valid().Generation(2).StatusCondition(v1alpha1.ConditionReady, status)
	}
	for name, c := range map[string]struct {
		rule     *build.RuleWrapper
		observed int64 // the generation that the status is about
		want     string
	}{
		"no status":                        {valid(), 0, ""},
		"in force":                         {told("True").StatusInForce(start, ""), 2, yes},
		"in dry-run":                       {told("True").StatusDryRun(start), 2, yes},
		"in force before an edit":          {told("True").StatusInForce(start, ""), 1, ""},
		"in force before its deletion":     {told("True").StatusInForce(start, "").Deleted(start), 1, yes},
		"in force, edited and deleted":     {told("True").StatusInForce(start, "").Deleted(start), 0, ""},
		"seen only":                        {told("True"), 2, ""},
		"invalid":                          {told("False"), 2, no},
		"invalid before an edit":           {told("False"), 1, ""},
		"not known to be valid or invalid": {told("Unknown"), 2, ""},
	} {
		got, obj := "", c.rule.Obj()
		obj.Status.ObservedGeneration = c.observed
		for i := range obj.Status.Conditions {
			obj.Status.Conditions[i].ObservedGeneration = c.observed
		}
		if ReportedInForce(obj) {
			got += yes
		}
		if ReportedNotInForce(obj) {
			got += no
		}
		if got != c.want {
			t.Errorf("%s: the rule is reported %q, want %q", name, got, c.want)
		}
	}
}

func TestASetKnowsWhatItsRulesNeed(t *testing.T) {
	free := func(name string, age int) *build.RuleWrapper {
		return build.MakeRule(name).UID("u-"+name).Created(at(age)).Selector("pool", "a").Condition("example.com/Ready").
			Taint("example.com/"+name, "", corev1.TaintEffectNoSchedule)
	}
	for name, c := range map[string]struct {
		edit                      func(*build.RuleWrapper)
		gathers, inspects, awaits bool
	}{
		"conditions": {edit: func(*build.RuleWrapper) {}},
		"pods": {edit: func(r *build.RuleWrapper) { r.DaemonSets("kube-system").MaxUnavailable("1") },
			gathers: true},
		"the node": {edit: func(r *build.RuleWrapper) {
			r.Evidence(v1alpha1.Requirement{Name: "kernel", CEL: &v1alpha1.CELRequirement{Expression: "true"}})
		}, inspects: true},
		"no taint": {edit: func(r *build.RuleWrapper) { r.Without("example.com/other") }, inspects: true, awaits: true},
	} {
		r := free("r", 1)
		c.edit(r)
		var rules []*Rule
		for _, w := range []*build.RuleWrapper{free("older", 0), r, free("younger", 2).After("older")} {
			rules = append(rules, Compile(w.Obj(), nil, start))
		}
		s := NewSet(rules...)
		if s.Gathers() != c.gathers || s.Inspects() != c.inspects || s.awaits != c.awaits {
			t.Errorf("%s: gathers %t, inspects %t, awaits %t", name, s.Gathers(), s.Inspects(), s.awaits)
		}
	}
}
