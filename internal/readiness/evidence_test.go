// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// TestResultsAreInTheRulesOrder: the conditions, then the requirements. Package condition says what each is.
func TestResultsAreInTheRulesOrder(t *testing.T) {
	r := rule().Condition(disk).Require(require(cni, "False", "True")).Evidence(named)
	var got []string
	facts := &evidence.Facts{Node: node().Condition(disk, "True", at(-9)).Obj()}
	for _, c := range Evaluate(compile(r), facts, Observed{}, start).Results {
		got = append(got, fmt.Sprintf("%s%s %s, required %s, default %q", c.Type, c.Name, c.Status, c.Required, c.Default()))
	}
	want := []string{`example.com/Disk True, required True, default ""`,
		`example.com/CNI True, required False, default "True"`, `named True, required True, default ""`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestBlocking(t *testing.T) {
	cases := map[string]struct {
		rule *build.RuleWrapper
		node *build.NodeWrapper
		want string
	}{
		"allOf: all that do not hold": {
			rule: rule().Condition(cni).Condition(disk), node: node().Condition(disk, "False", at(-5)),
			want: "condition example.com/CNI has not been reported, must be True; condition example.com/Disk is False, must " +
				"be True",
		},
		"allOf: only those that do not hold": {
			rule: rule().Condition(cni).Condition(disk), node: node().Condition(cni, "True", at(-5)).Condition(disk, "False",
				at(-5)),
			want: "condition example.com/Disk is False, must be True",
		},
		"anyOf: nothing where one holds": {
			rule: rule().Condition(cni).Condition(disk).AnyOf(), node: node().Condition(disk, "True", at(-5)),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := compile(c.rule)
			facts := &evidence.Facts{Node: c.node.Obj()}
			verdict := Evaluate(r, facts, Observed{}, start)
			got := verdict.Blocking()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("blocking (-want +got):\n%s", diff)
			}
			if ready := verdict.Ready; ready != (got == "") {
				t.Errorf("ready is %t, blocking is %q: they disagree", ready, got)
			}
		})
	}
}

// TestOnlyATaintThatKeepsPodsOffNeverLetsThemRun: other rules do not keep the pods that they wait for away.
func TestOnlyATaintThatKeepsPodsOffNeverLetsThemRun(t *testing.T) {
	waiting := initPod("a", start, unready, func(p *corev1.Pod) { p.Spec.NodeName = "" })
	for name, c := range map[string]struct {
		rule  *build.RuleWrapper
		never bool
	}{
		"no taint":         {rule: rule().Untainted().Publish("example.com/Verdict")},
		"PreferNoSchedule": {rule: rule().Taint("example.com/t", "", corev1.TaintEffectPreferNoSchedule)},
		"NoExecute":        {rule: rule().Taint("example.com/t", "", corev1.TaintEffectNoExecute), never: true},
	} {
		r := compile(c.rule.Evidence(v1alpha1.Requirement{Name: "init", Pods: &usual}))
		facts := &evidence.Facts{Node: node().Obj(),
			Gathered: &evidence.Gathered{Pods: map[*evidence.Pods][]*corev1.Pod{r.Pods()[0]: {waiting}}}}
		v := Evaluate(r, facts, Observed{}, start)
		if got := v.Blocking(); strings.Contains(got, "can never run") != c.never {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// An earlier verdict of the same kind may have ended between two looks of the process.
func TestAWindowCountsFromThePieceThatDecidesForLongest(t *testing.T) {
	for want, r := range map[bool]*ruleset.Rule{false: compile(rule().Condition(cni).Condition(disk)),
		true: compile(rule().Condition(cni).Condition(disk).AnyOf())} {
		status := map[bool]corev1.ConditionStatus{want: "True", !want: "False"}
		look := func(before Verdict, second int, first, other bool, sinceFirst, sinceOther int) Verdict {
			n := node().Condition(cni, status[first], at(sinceFirst)).Condition(disk, status[other], at(sinceOther)).Obj()
			return Evaluate(r, &evidence.Facts{Node: n}, before.Observed, at(second))
		}
		one := look(look(Verdict{}, 0, false, false, -9, -9), 1, true, false, 1, -9)
		both := look(one, 41, true, true, 1, 41)
		compareVerdict(t, Verdict{Ready: want, Since: at(1)}, one)
		compareVerdict(t, Verdict{Ready: want, Since: at(1)}, both)
		compareVerdict(t, Verdict{Ready: want, Since: at(41)}, look(both, 50, false, true, 50, 41))
	}
}
