// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// TestEvidenceIsJudgedAsTheOperatorDoes compares both on many small worlds.
func TestEvidenceIsJudgedAsTheOperatorDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // the same worlds each time
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	statuses := []v1alpha1.ConditionStatus{"True", "False", "Unknown"}
	held := 0
	for range 20000 {
		node := build.MakeNode("n")
		e := Evidence{AnyOf: random.IntN(2) == 0}
		for _, name := range []string{"A", "B"} {
			if random.IntN(4) > 0 {
				node.Condition(name, corev1.ConditionStatus(statuses[random.IntN(3)]), now.Add(-time.Duration(random.IntN(4))*time.Minute))
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
		if got := e.judge(obj, now) == ""; got != want {
			t.Fatalf("got %t, the operator %t:\n%+v\n%+v", got, want, spec, obj.Status.Conditions)
		}
		if want {
			held++
		}
	}
	if held < 1000 || held > 19000 {
		t.Errorf("of 20000 rules %d hold: that compares little", held)
	}
}
