// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"
	"testing"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// largeNode has so many conditions, all True.
func largeNode(conditions int) *build.NodeWrapper {
	n := node()
	for i := range conditions {
		n.Condition(fmt.Sprintf("example.com/Condition%d", i), "True", at(-i))
	}
	return n
}

// largeRules are so many rules with five conditions each.
func largeRules(count, conditions int) []*ruleset.Rule {
	out := make([]*ruleset.Rule, count)
	for i := range out {
		r := build.MakeRule(fmt.Sprintf("r%d", i)).UID(fmt.Sprintf("r%d", i)).Selector("pool", "workers")
		for j := range 5 {
			r.FreshCondition(fmt.Sprintf("example.com/Condition%d", (i+j)%conditions), 900)
		}
		out[i] = compile(r)
	}
	return out
}

func TestEvaluateDoesNotAllocate(t *testing.T) {
	rules, facts, now := largeRules(1, 12), &evidence.Facts{Node: largeNode(12).Obj(),
		Results: make([]evidence.Result, 0, 8)}, start
	for name, r := range map[string]*ruleset.Rule{
		"ready": rules[0],
		"unready": compile(rule().Condition("example.com/Condition3").Condition(cni).FreshCondition("example.com/Condition4",
			1)),
	} {
		var v Verdict
		if n := testing.AllocsPerRun(100, func() { v = Evaluate(r, facts, unreadySince, now) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
		if v.Ready != (name == "ready") {
			t.Errorf("%s: ready is %t", name, v.Ready)
		}
	}
}

// BenchmarkEvaluate judges 50 rules of five conditions each on one node with twelve conditions; below 50µs is the aim.
func BenchmarkEvaluate(b *testing.B) {
	rules, facts := largeRules(50, 12), &evidence.Facts{Node: largeNode(12).Obj(), Results: make([]evidence.Result, 0, 8)}
	ready := 0
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range rules {
			if Evaluate(r, facts, Observed{}, start).Ready {
				ready++
			}
		}
	}
	if ready != b.N*len(rules) {
		b.Errorf("%d of %d verdicts were ready", ready, b.N*len(rules))
	}
}
