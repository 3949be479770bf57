// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

func TestCauses(t *testing.T) {
	inService := nodeview.State{Matches: true, Released: true}
	condition := func(status v1alpha1.ConditionStatus) []v1alpha1.ConditionEvaluationResult {
		return []v1alpha1.ConditionEvaluationResult{
			{Type: "a", CurrentStatus: status, RequiredStatus: "True"},
			{Type: "b", CurrentStatus: "False", RequiredStatus: "False"},
		}
	}
	f, r := New(&heard{}, func() time.Time { return now }), rule("")
	f.SetRules(ruleset.NewSet(r), nil, now)
	record := func(name string, state nodeview.State, o Missing) {
		f.Record(build.MakeNode(name).UID(name).Obj(), []Entry{{Rule: r, Current: &state, Missing: o}}, now)
	}
	waiting := func(pod string, more ...v1alpha1.RequirementEvaluationResult) Missing {
		return Missing{Requirements: append([]v1alpha1.RequirementEvaluationResult{
			{Name: "warm-up", Message: "pod " + pod + " is not ready"}}, more...)}
	}
	csi := v1alpha1.RequirementEvaluationResult{Name: "csi", Satisfied: true}
	record("n-1", inService, Missing{Results: condition("False")})
	record("n-4", inService, Missing{Results: condition("Unknown")})
	record("n-3", inService, Missing{Results: condition("Unknown")})
	record("ready", inService, Missing{})
	record("joining", nodeview.State{Matches: true}, Missing{Results: condition("Unknown")})
	record("other", nodeview.State{Released: true}, Missing{Results: condition("Unknown")})
	record("n-5", inService, waiting("init-x7k2p", csi))
	record("n-6", inService, waiting("init-9jw4q", csi))
	record("n-7", inService, Missing{Results: condition("False"),
		Requirements: []v1alpha1.RequirementEvaluationResult{{Name: "csi"}}})
	for _, node := range []string{"m-1", "m-2", "m-3", "m-4", "m-5", "m-6"} {
		record(node, inService, waiting("init-"+node, v1alpha1.RequirementEvaluationResult{Name: "gpu"}))
	}
	want := []Cause{
		{What: "requirement warm-up is not satisfied, requirement gpu is not satisfied", Count: 6,
			Nodes: []string{"m-1", "m-2", "m-3", "m-4", "m-5"}},
		{What: "condition a is Unknown", Count: 2, Nodes: []string{"n-3", "n-4"}},
		{What: "requirement warm-up is not satisfied", Count: 2, Nodes: []string{"n-5", "n-6"}},
		{What: "condition a is False", Count: 1, Nodes: []string{"n-1"}},
		{What: "condition a is False, requirement csi is not satisfied", Count: 1, Nodes: []string{"n-7"}},
	}
	m, _ := f.Material(r.UID)
	got := m.Causes
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}
