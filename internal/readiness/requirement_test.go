// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/validation"
)

// named is evidence that the node of these tests has.
var named = v1alpha1.Requirement{Name: "named",
	CEL: &v1alpha1.CELRequirement{Expression: "node.metadata.name == 'n'"}}

func TestRequirements(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	gpus := func(least string) v1alpha1.Requirement {
		return v1alpha1.Requirement{Name: "gpus", Resource: &v1alpha1.ResourceRequirement{Name: "nvidia.com/gpu",
			Min: resource.MustParse(least)}}
	}
	expr := func(text string) v1alpha1.Requirement {
		return v1alpha1.Requirement{Name: "kernel", CEL: &v1alpha1.CELRequirement{Expression: text}}
	}
	phase := v1alpha1.Requirement{Name: "phase", RuleSatisfied: &v1alpha1.RuleSatisfiedRequirement{Name: "first"}}
	node := build.MakeNode("n").Created(at).Obj()
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
	node.Status.NodeInfo.KernelVersion = "6.1"
	node.Spec.Taints = []corev1.Taint{{Key: "example.com/agent", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	absent := func(key string, effect v1alpha1.TaintEffect) v1alpha1.Requirement {
		return v1alpha1.Requirement{Name: "agent", NoTaint: &v1alpha1.NoTaintRequirement{Key: key, Effect: effect}}
	}

	for name, tc := range map[string]struct {
		require  v1alpha1.Requirement
		rules    map[string]evidence.Satisfaction
		ready    bool
		appeared bool
		unclear  bool // nothing shows that the node is not ready
		message  string
	}{
		"enough of a resource": {require: gpus("4"), ready: true, message: "resource nvidia.com/gpu: 4 allocatable"},
		"too little of a resource": {require: gpus("8"), appeared: true,
			message: "resource nvidia.com/gpu: 4 allocatable, must be at least 8"},
		"a resource that is not there": {
			require: v1alpha1.Requirement{Name: "x", Resource: &v1alpha1.ResourceRequirement{Name: "example.com/x",
				Min: resource.MustParse("1")}},
			message: "resource example.com/x: none is allocatable, must be at least 1"},
		"a resource of which any amount suffices, and that is not there": {
			require: v1alpha1.Requirement{Name: "x", Resource: &v1alpha1.ResourceRequirement{Name: "example.com/x",
				Min: resource.MustParse("0")}},
			message: "resource example.com/x: none is allocatable, must be at least 0"},
		"a true expression": {require: expr("node.status.nodeInfo.kernelVersion.startsWith('6.')"), ready: true,
			message: "expression kernel is true"},
		"a false expression": {require: expr("node.status.nodeInfo.kernelVersion == '5'"), appeared: true,
			message: "expression kernel is false"},
		"an expression that fails": {require: expr("node.metadata.labels['x'] == 'y'"), appeared: true, unclear: true,
			message: "expression kernel cannot be evaluated: no such key: x"},
		"a taint that is there": {require: absent("example.com/agent", "NoSchedule"), appeared: true,
			message: "taint example.com/agent:NoSchedule is on the node"},
		"a taint that is absent": {require: absent("example.com/other", "NoSchedule"), ready: true,
			message: "taint example.com/other:NoSchedule is absent"},
		"a taint that is there with another effect": {require: absent("example.com/agent", "NoExecute"), ready: true,
			message: "taint example.com/agent:NoExecute is absent"},
		"a rule that is satisfied": {require: phase,
			rules:   map[string]evidence.Satisfaction{"first": {Matches: true, Satisfied: true}},
			ready:   true,
			message: "rule first is satisfied on this node"},
		"a rule that does not hold": {require: phase, rules: map[string]evidence.Satisfaction{"first": {Matches: true}},
			appeared: true, unclear: true, message: "rule first is not satisfied on this node"},
		"a rule that is refuted": {require: phase, appeared: true, message: "rule first is not satisfied on this node",
			rules: map[string]evidence.Satisfaction{"first": {Matches: true, Refuted: true}}},
		"a rule about other nodes": {require: phase, rules: map[string]evidence.Satisfaction{"first": {}},
			message: "rule first does not select this node"},
		"a rule that is not there": {require: phase, message: "rule first does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			rule := requiring(t, tc.require)
			facts := &evidence.Facts{Node: node, Gathered: &evidence.Gathered{Rules: tc.rules}}
			v := Evaluate(rule, facts, Observed{}, at)
			if v.Ready != tc.ready || v.NeverAppeared != (!tc.ready && !tc.appeared) {
				t.Errorf("ready %t, never appeared %t", v.Ready, v.NeverAppeared)
			}
			if got := v.Refuted(false); got != (tc.appeared && !tc.unclear) {
				t.Errorf("refuted %t", got)
			}
			got := v.Results
			if len(got) != 1 || got[0].Message() != tc.message || got[0].Satisfied != tc.ready ||
				got[0].Name != tc.require.Name {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestARequiredRuleThatWaitsForTheBoot: the verdict is unknown, and not ready for now, regardless of other evidence.
func TestARequiredRuleThatWaitsForTheBoot(t *testing.T) {
	waits, unread := evidence.Satisfaction{Matches: true, Unknown: true, Booting: true},
		evidence.Satisfaction{Matches: true, Unknown: true}
	fails, holds := evidence.Satisfaction{Matches: true}, evidence.Satisfaction{Matches: true, Satisfied: true}
	for name, c := range map[string]struct {
		rule             *build.RuleWrapper
		first, second    evidence.Satisfaction
		unknown, booting bool
	}{
		"both wait":                     {rule(), waits, waits, true, true},
		"one waits":                     {rule(), waits, unread, true, true},
		"neither waits":                 {rule(), unread, unread, true, false},
		"one is not satisfied":          {rule(), waits, fails, false, false},
		"anyOf, and both wait":          {rule().AnyOf(), waits, waits, true, true},
		"anyOf, and one may hold":       {rule().AnyOf(), waits, unread, true, false},
		"anyOf, one is not satisfied":   {rule().AnyOf(), waits, fails, true, true},
		"anyOf, and the other is ready": {rule().AnyOf(), waits, holds, false, false},
	} {
		facts := &evidence.Facts{Node: node().Obj(), Gathered: &evidence.Gathered{
			Rules: map[string]evidence.Satisfaction{"first": c.first, "second": c.second}}}
		v := Evaluate(compile(c.rule.After("first", "second")), facts, Observed{}, start)
		if v.Unknown != c.unknown || v.Booting != c.booting {
			t.Errorf("%s: unknown is %t, booting is %t", name, v.Unknown, v.Booting)
		}
	}
}

// TestAnExpressionDoesNotSeeTheRulesOwnTaint: if it did, the rule would hold a new node for ever.
func TestAnExpressionDoesNotSeeTheRulesOwnTaint(t *testing.T) {
	rule := requiring(t, v1alpha1.Requirement{Name: "x", CEL: &v1alpha1.CELRequirement{
		Expression: "node.spec.taints.all(t, t.effect != 'NoSchedule')"}})
	other := *rule
	other.Taint = &corev1.Taint{Key: "example.com/other", Effect: corev1.TaintEffectNoSchedule}
	node := build.MakeNode("n").Taint(rule.Taint.Key, "of kubelet", rule.Taint.Effect).Obj()
	facts := &evidence.Facts{Node: node, Gathered: &evidence.Gathered{}}
	for range 2 { // with what the first rules have left in the facts
		if got := Evaluate(rule, facts, Observed{}, start); !got.Ready {
			t.Error("a rule sees its own taint")
		}
		if got := Evaluate(&other, facts, Observed{}, start); got.Ready {
			t.Error("a rule does not see the taint of another one")
		}
	}
	if len(node.Spec.Taints) != 1 {
		t.Error("the node has been changed")
	}
}

// TestInvalidRulesAreEvaluatedToo: a rule that is frozen because its spec is invalid is evaluated with all others, and
// must not keep the node from them.
func TestInvalidRulesAreEvaluatedToo(t *testing.T) {
	pod := initPod("a", start)
	validation.Run(t, func(t *testing.T, c validation.Case) {
		obj := build.MakeRule("r").UID("u").Obj()
		if json.Unmarshal(c.Spec, &obj.Spec) != nil {
			return // the operator cannot read it at all
		}
		rule := ruleset.Compile(obj, nil, start)
		pods := map[*evidence.Pods][]*corev1.Pod{}
		for _, p := range rule.Pods() {
			pods[p] = []*corev1.Pod{pod}
		}
		facts := &evidence.Facts{Node: build.MakeNode("n").Obj(), Manager: ruleset.NewSet(rule).ManagerName,
			Gathered: &evidence.Gathered{Pods: pods}}
		v := Evaluate(rule, facts, Observed{}, start)
		if got := len(v.Results); got != len(obj.Spec.Conditions)+len(obj.Spec.Requirements) {
			t.Errorf("%d results", got)
		}
		for i := range v.Results {
			if v.Results[i].Message() == "" {
				t.Errorf("result %d has no message", i)
			}
		}
	})
}

func TestThePolicyCoversConditionsAndRequirementsAlike(t *testing.T) {
	r := rule().Condition(cni).Evidence(named)
	facts := &evidence.Facts{Node: node().Condition(cni, corev1.ConditionFalse, at(0)).Obj()}
	if Evaluate(compile(r), facts, Observed{}, start).Ready {
		t.Error("allOf holds with a condition that does not")
	}
	if !Evaluate(compile(r.AnyOf()), facts, Observed{}, start).Ready {
		t.Error("anyOf does not hold with a requirement that does")
	}
}
