// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/validation"
)

// TestValidate is the operator's side of the table that the API server is tested with. What the API server accepts, the
// operator must not freeze.
func TestValidate(t *testing.T) {
	validation.Run(t, func(t *testing.T, c validation.Case) {
		spec := v1alpha1.NodeReadinessRuleSpec{}
		if err := json.Unmarshal(c.Spec, &spec); err != nil {
			if len(c.Refused) == 0 {
				t.Errorf("the API server accepts what the operator cannot read: %v", err)
			}
			return
		}
		var got []string
		for _, p := range Compile(&v1alpha1.NodeReadinessRule{Spec: spec}, nil, start).Problems {
			got = append(got, p.Reason+" "+p.Field)
			if p.Message == "" || !strings.HasPrefix(p.String(), p.Field+": ") {
				t.Errorf("%q does not say what is wrong", p.String())
			}
			validation.ReadAloud(t, p.String())
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.Frozen, got); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		if len(c.Refused) == 0 && len(got) > 0 {
			t.Error("the API server accepts this rule, and the operator freezes it")
		}
	})
}

// TestBounds: the least values are accepted, and each time has its own bound.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ seconds, appear, problems int }{
		{1, 1, 0}, {0, 1, 1}, {1, 0, 1}, {-1, 0, 1},
	} {
		rule := valid().Timeout(0, 0, v1alpha1.TimeoutActionRelease)
		rule.Spec.Timeout.Seconds, rule.Spec.Timeout.AppearSeconds = new(int32(c.seconds)), new(int32(c.appear))
		if got := Compile(rule.Obj(), nil, start).Problems; len(got) != c.problems {
			t.Errorf("seconds %d, appearSeconds %d: %v, want %d problems", c.seconds, c.appear, got, c.problems)
		}
	}
	for name, rule := range map[string]*build.RuleWrapper{
		"appearSeconds alone": valid().Timeout(0, 1, v1alpha1.TimeoutActionRelease),
		"the least outage":    valid().Condition("Ready").EvictionGuard(20).Endpoints(1, 20),
	} {
		if got := Compile(rule.Obj(), nil, start).Problems; len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestARuleWithoutATaintMayWaitForOne(t *testing.T) {
	rule := valid().Untainted().Health("node_ready").Without("readiness.k8s.io/cni")
	if got := Compile(rule.Obj(), nil, start).Problems; len(got) > 0 {
		t.Error(got)
	}
	if got := Compile(valid().Without("readiness.k8s.io/cni").Obj(), nil, start).Problems; len(got) != 1 {
		t.Errorf("a rule that waits for its own taint: %v", got)
	}
}

func TestRequirementsHaveNames(t *testing.T) {
	rule := valid().Evidence(v1alpha1.Requirement{CEL: &v1alpha1.CELRequirement{Expression: "true"}})
	if got := Compile(rule.Obj(), nil, start).Problems; len(got) != 1 || got[0].Field != "spec.requirements[0].name" {
		t.Errorf("without a name: %v", got)
	}
}

func TestProblemWithoutAField(t *testing.T) {
	if got := (Problem{Message: "not ours"}).String(); got != "not ours" {
		t.Errorf("it says %q", got)
	}
}
