// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
)

func TestCauses(t *testing.T) {
	inService := gate.State{Matches: true, Released: true}
	condition := func(status v1alpha1.ConditionStatus) []v1alpha1.ConditionEvaluationResult {
		return []v1alpha1.ConditionEvaluationResult{
			{Type: "a", CurrentStatus: status, RequiredStatus: "True"},
			{Type: "b", CurrentStatus: "False", RequiredStatus: "False"},
		}
	}
	got := causes(map[string]*Entry{
		"n-1":     {Current: inService, Results: condition("False")},
		"n-4":     {Current: inService, Results: condition("Unknown")},
		"n-3":     {Current: inService, Results: condition("Unknown")},
		"ready":   {Current: inService},
		"joining": {Current: gate.State{Matches: true}, Results: condition("Unknown")},
		"other":   {Current: gate.State{Released: true}, Results: condition("Unknown")},
		"n-5": {Current: inService, Requirements: []v1alpha1.RequirementEvaluationResult{
			{Name: "warm-up", Message: "pod init-x7k2p is not ready"}, {Name: "csi", Satisfied: true}}},
		"n-6": {Current: inService, Requirements: []v1alpha1.RequirementEvaluationResult{
			{Name: "warm-up", Message: "pod init-9jw4q is not ready"}, {Name: "csi", Satisfied: true}}},
		"n-7": {Current: inService, Results: condition("False"),
			Requirements: []v1alpha1.RequirementEvaluationResult{{Name: "csi"}}},
	})
	want := []Cause{
		{What: "condition a is Unknown", Nodes: []string{"n-3", "n-4"}},
		{What: "requirement warm-up is not satisfied", Nodes: []string{"n-5", "n-6"}},
		{What: "condition a is False", Nodes: []string{"n-1"}},
		{What: "condition a is False, requirement csi is not satisfied", Nodes: []string{"n-7"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}
