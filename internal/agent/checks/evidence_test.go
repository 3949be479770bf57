// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// satisfied judges a condition as the API's documentation says, without the code that agent and operator share.
func satisfied(c *v1alpha1.ConditionRequirement, node *corev1.Node, now time.Time) bool {
	status := v1alpha1.ConditionUnknown
	if c.DefaultStatus != "" {
		status = c.DefaultStatus
	}
	for _, reported := range node.Status.Conditions {
		if string(reported.Type) != c.Type {
			continue
		}
		status = v1alpha1.ConditionStatus(reported.Status)
		last := reported.LastHeartbeatTime.Time
		if last.IsZero() {
			last = reported.LastTransitionTime.Time
		}
		if c.MaxAgeSeconds != nil && now.Sub(last) >= time.Duration(*c.MaxAgeSeconds)*time.Second {
			status = v1alpha1.ConditionUnknown
		}
	}
	return status == c.RequiredStatus
}

// TestEvidenceIsJudgedAsTheOperatorDoes compares agent, operator and the documentation on many random rules and nodes.
func TestEvidenceIsJudgedAsTheOperatorDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // the same ones each time
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	statuses := []v1alpha1.ConditionStatus{"True", "False", "Unknown"}
	seen := map[[2]bool]int{} // by policy and verdict
	for range 20000 {
		node := build.MakeNode("n")
		e := config.Rule{AnyOf: random.IntN(2) == 0}
		for _, name := range []string{"A", "B"} {
			if random.IntN(4) > 0 {
				since := now.Add(-time.Duration(random.IntN(4)) * time.Minute)
				node.Condition(name, corev1.ConditionStatus(statuses[random.IntN(3)]), since)
			}
			if random.IntN(8) == 0 {
				node.Heartbeat(name, time.Time{})
			}
			c := v1alpha1.ConditionRequirement{Type: name, RequiredStatus: statuses[random.IntN(3)]}
			if random.IntN(3) == 0 {
				c.DefaultStatus = statuses[random.IntN(3)]
			}
			if random.IntN(2) == 0 {
				c.MaxAgeSeconds = new(int32(60 * (1 + random.IntN(3))))
			}
			e.Conditions = append(e.Conditions, c)
		}
		spec := &v1alpha1.NodeReadinessRuleSpec{Conditions: e.Conditions, ConditionPolicy: v1alpha1.ConditionPolicyAllOf}
		if e.AnyOf {
			spec.ConditionPolicy = v1alpha1.ConditionPolicyAnyOf
		}
		obj := node.Obj()
		want := readiness.Evaluate(&ruleset.Rule{Spec: spec}, &readiness.Facts{Node: obj}, now).Ready
		first, second := satisfied(&e.Conditions[0], obj, now), satisfied(&e.Conditions[1], obj, now)
		documented := first && second || e.AnyOf && (first || second)
		if got := judge(&e, obj, now) == ""; got != want || got != documented {
			t.Fatalf("the agent: %t, the operator: %t, the documentation: %t:\n%+v\n%+v",
				got, want, documented, spec, obj.Status.Conditions)
		}
		seen[[2]bool{e.AnyOf, want}]++
	}
	for _, kind := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
		if seen[kind] < 1000 {
			t.Errorf("of 20000 rules %d have anyOf %t and the verdict %t: that compares little", seen[kind], kind[0], kind[1])
		}
	}
}
