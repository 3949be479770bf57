// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/test/build"
)

func TestDisplaced(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	prober := func(name string, age int, conditions ...string) *build.RuleWrapper {
		r := build.MakeRule(name).UID("u-"+name).Created(now.Add(-time.Duration(age)*time.Hour)).Selector("pool",
			"a").Condition("x").Taint("example.com/"+name, "", "NoSchedule")
		for _, c := range conditions {
			r.Probe(c, 1)
		}
		return r
	}
	for name, c := range map[string]struct {
		rules []*build.RuleWrapper
		want  map[string]Displaced
	}{
		"conditions of their own": {rules: []*build.RuleWrapper{prober("a", 1, "x"), prober("b", 2, "y")}},
		"the older one publishes": {rules: []*build.RuleWrapper{prober("a", 1, "x"), prober("b", 2, "x")},
			want: map[string]Displaced{"a": {Probe: "condition x is published by the older rule b"}}},
		"of several conditions, the first is told": {rules: []*build.RuleWrapper{prober("a", 1, "w", "x", "y"),
			prober("b", 2, "y", "x")},
			want: map[string]Displaced{"a": {Probe: "condition x is published by the older rule b"}}},
		"one in dry-run publishes anyway": {rules: []*build.RuleWrapper{prober("a", 1, "x"),
			prober("b", 2, "x").DryRun(true)},
			want: map[string]Displaced{"a": {Probe: "condition x is published by the older rule b"}}},
		"one that is being deleted does not": {rules: []*build.RuleWrapper{prober("a", 1, "x"),
			prober("b", 2, "x").Deleted(now)}},
		"one of other nodes does not": {rules: []*build.RuleWrapper{prober("a", 1, "x"),
			prober("b", 2, "x").Selector("zone", "z")}},
		"an older rule publishes its verdict": {rules: []*build.RuleWrapper{prober("a", 1).Publish("e.com/x"),
			prober("b", 2).Publish("e.com/x")},
			want: map[string]Displaced{"a": {Verdict: "condition e.com/x is published by the older rule b"}}},
		"an older rule in dry-run publishes no verdict": {rules: []*build.RuleWrapper{prober("a", 1).Publish("e.com/x"),
			prober("b", 2).Publish("e.com/x").DryRun(true)}},
		"a probe comes before an older rule": {rules: []*build.RuleWrapper{prober("a", 1, "e.com/x"),
			prober("b", 2).Publish("e.com/x")},
			want: map[string]Displaced{"b": {Verdict: "condition e.com/x is published by a probe of rule a"}}},
		"nor one that is also frozen": {rules: []*build.RuleWrapper{prober("a", 1).Publish("e.com/x"),
			prober("frozen", 2).Publish("e.com/x").DryRun(true)}},
		"an older rule that is suspended publishes no verdict": {rules: []*build.RuleWrapper{
			prober("a", 1).Publish("e.com/x"), prober("b", 2).Publish("e.com/x").Suspend(true)}},
		"nor one that is frozen": {rules: []*build.RuleWrapper{prober("a", 1).Publish("e.com/x"),
			prober("frozen", 2).Publish("e.com/x")}},
		"but one whose evidence is being read": {rules: []*build.RuleWrapper{prober("a", 1).Publish("e.com/x"),
			prober("pending", 2).Publish("e.com/x")},
			want: map[string]Displaced{"a": {Verdict: "condition e.com/x is published by the older rule pending"}}},
		"a probe and the verdict": {rules: []*build.RuleWrapper{prober("a", 1, "x").Publish("e.com/x"),
			prober("b", 2, "x").Publish("e.com/x")},
			want: map[string]Displaced{"a": {Probe: "condition x is published by the older rule b",
				Verdict: "condition e.com/x is published by the older rule b"}}},
		"a younger rule has no probes": {rules: []*build.RuleWrapper{prober("a", 1), prober("b", 2, "x"),
			prober("c", 3, "x")}, want: map[string]Displaced{"b": {Probe: "condition x is published by the older rule c"}}},
		"no probes at all": {rules: []*build.RuleWrapper{prober("a", 1), prober("b", 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []*Rule
			for _, r := range c.rules {
				rule := Compile(r.Obj(), nil, now)
				switch rule.Name {
				case "frozen":
					rule = rule.Freeze(Problem{Reason: evidence.ReasonInvalid})
				case "pending":
					rule = rule.Freeze(Problem{Reason: ReasonPending})
				}
				rules = append(rules, rule)
			}
			got := NewSet(rules...).Displaced(map[string]string{"pool": "a"})
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPublishable(t *testing.T) {
	for conditionType, want := range map[string]bool{"example.com/NetworkReady": true, "NetworkReady": false, "": false,
		"example.com/": false, "kubernetes.io/NetworkReady": false, "node.k8s.io/NetworkReady": false} {
		if Publishable(conditionType) != want {
			t.Errorf("a rule may publish %q: %t", conditionType, !want)
		}
	}
}

func TestARuleWithoutATaintHoldsByItsVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		rule *build.RuleWrapper
		want bool
	}{
		"a taint":                     {valid(), false},
		"a taint and health":          {valid().Health("node_ready"), false},
		"a taint and a condition":     {valid().Publish("e.com/x"), false},
		"health":                      {valid().Untainted().Health("node_ready"), true},
		"a condition":                 {valid().Untainted().Publish("e.com/x"), true},
		"the eviction guard, no more": {valid().Untainted().EvictionGuard(60), false},
	} {
		if got := Compile(c.rule.Obj(), nil, start).HoldsByVerdict(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
