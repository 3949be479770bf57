// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness/condition"
	"github.com/nodegate/nodegate/test/build"
)

// result is a Result, spelled out.
type result struct {
	Type, Message             string
	Status, Required, Default v1alpha1.ConditionStatus
	Satisfied                 bool
	Cause                     condition.Cause
	Since                     time.Time
	Heartbeat, ChangesAt      time.Time
}

func spelledOut(v Verdict) []result {
	var out []result
	for _, r := range v.Results {
		out = append(out, result{Type: r.Type, Message: r.Message(), Status: r.Status, Required: r.Required,
			Default: r.Default(), Satisfied: r.Satisfied, Cause: r.Cause, Since: r.Since, Heartbeat: r.Heartbeat,
			ChangesAt: r.ChangesAt})
	}
	return out
}

func TestResultsSayWhy(t *testing.T) {
	r := func() *build.RuleWrapper { return rule() }
	cases := map[string]struct {
		rule      *build.RuleWrapper
		node      *build.NodeWrapper
		notBefore time.Time
		want      result
	}{
		"as reported, and right": {
			rule: r().Condition(cni), node: node().Condition(cni, "True", at(-5)),
			want: result{Status: "True", Required: "True", Satisfied: true, Cause: CauseReported, Since: at(-5),
				Heartbeat: at(-5),
				Message:   "condition example.com/CNI is True"},
		},
		"as reported, and wrong": {
			rule: r().Condition(cni), node: node().Condition(cni, "False", at(-5)),
			want: result{Status: "False", Required: "True", Cause: CauseReported, Since: at(-5), Heartbeat: at(-5),
				Message: "condition example.com/CNI is False, must be True"},
		},
		"missing": {
			rule: r().Condition(cni), node: node(),
			want: result{Status: "Unknown", Required: "True", Cause: CauseMissing,
				Message: "condition example.com/CNI has not been reported, must be True"},
		},
		"missing, as it must be": {
			rule: r().Require(require(cni, "Unknown", "")), node: node(),
			want: result{Status: "Unknown", Required: "Unknown", Satisfied: true, Cause: CauseMissing,
				Message: "condition example.com/CNI has not been reported"},
		},
		"assumed": {
			rule: r().Require(require(cni, "True", "False")), node: node(),
			want: result{Status: "False", Required: "True", Default: "False", Cause: CauseDefault,
				Message: "condition example.com/CNI has not been reported and is assumed to be False, must be True"},
		},
		"the default of a condition that is there is not said": {
			rule: r().Require(require(cni, "True", "False")), node: node().Condition(cni, "True", at(-5)),
			want: result{Status: "True", Required: "True", Satisfied: true, Cause: CauseReported, Since: at(-5),
				Heartbeat: at(-5),
				Message:   "condition example.com/CNI is True"},
		},
		"stale": {
			rule: r().FreshCondition(cni, 60), node: node().Condition(cni, "True", at(-90)),
			want: result{Status: "Unknown", Required: "True", Cause: CauseStale, Since: at(-30), Heartbeat: at(-90),
				Message: "condition example.com/CNI is stale: last reported at 2026-01-02T14:58:30Z, at least 1m0s ago, must be " +
					"True"},
		},
		"not stale yet": {
			rule: r().FreshCondition(cni, 60), node: node().Condition(cni, "True", at(-50)),
			want: result{Status: "True", Required: "True", Satisfied: true, Cause: CauseReported, Since: at(-50),
				Heartbeat: at(-50),
				ChangesAt: at(10), Message: "condition example.com/CNI is True"},
		},
		"stale, because it has no time": {
			rule: r().FreshCondition(cni, 60), node: node().Condition(cni, "True", time.Time{}),
			want: result{Status: "Unknown", Required: "True", Cause: CauseStale,
				Message: "condition example.com/CNI does not say when it was reported, which must be within 1m0s, must be " +
					"True"},
		},
		"from before the boot": {
			rule: r().Condition(cni), node: node().Condition(cni, "True", at(-90)), notBefore: at(-30),
			want: result{Status: "Unknown", Required: "True", Cause: CauseBeforeBoot, Since: at(-30), Heartbeat: at(-90),
				Message: "condition example.com/CNI has not been reported since the node booted, must be True"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.want.Type = cni
			got := spelledOut(Evaluate(compile(c.rule), &Facts{Node: c.node.Obj(),
				Boot: Boot{Bound: c.notBefore, SeenAt: c.notBefore}}, start))
			if diff := cmp.Diff([]result{c.want}, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResultsAreInTheRulesOrder(t *testing.T) {
	r := compile(rule().Condition(disk).Condition(cni))
	got := spelledOut(Evaluate(r, &Facts{Node: node().Condition(cni, "True", at(-5)).Condition(disk, "False",
		at(-9)).Obj()}, start))
	want := []result{{Type: disk, Status: "False"}, {Type: cni, Status: "True"}}
	only := cmpopts.IgnoreFields(result{}, "Required", "Satisfied", "Cause", "Since", "Heartbeat", "Message")
	if diff := cmp.Diff(want, got, only); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestBlocking(t *testing.T) {
	cases := map[string]struct {
		rule *build.RuleWrapper
		node *build.NodeWrapper
		want string
	}{
		"nothing blocks what holds": {
			rule: rule().Condition(cni), node: node().Condition(cni, "True", at(-5)),
		},
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
		"anyOf: all where none does": {
			rule: rule().Condition(cni).Condition(disk).AnyOf(), node: node().Condition(disk, "Unknown", at(-5)),
			want: "condition example.com/CNI has not been reported, must be True; condition example.com/Disk is Unknown, " +
				"must be True",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := compile(c.rule)
			facts := &Facts{Node: c.node.Obj()}
			verdict := Evaluate(r, facts, start)
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
