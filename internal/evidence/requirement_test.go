// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
)

func TestWhatWaitsForATaint(t *testing.T) {
	taint := &corev1.Taint{Key: "example.com/t", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	without := func(key string, effect v1alpha1.TaintEffect) v1alpha1.Requirement {
		return v1alpha1.Requirement{Name: "x", NoTaint: &v1alpha1.NoTaintRequirement{Key: key, Effect: effect}}
	}
	for name, c := range map[string]struct {
		of    v1alpha1.Requirement
		taint *corev1.Taint
		want  bool
	}{
		"its taint":      {without("example.com/t", "NoSchedule"), taint, true},
		"another effect": {without("example.com/t", "NoExecute"), taint, false},
		"another key":    {without("example.com/x", "NoSchedule"), taint, false},
		"a rule of none": {without("example.com/t", "NoSchedule"), nil, false},
		"a requirement that waits for no taint": {v1alpha1.Requirement{Name: "x",
			CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "d"}}, taint, false},
	} {
		var problems evidence.Problems
		r := evidence.Compile(&problems, "spec.requirements[0]", &c.of)
		if got := r.WaitsFor(c.taint); got != c.want || len(problems) > 0 {
			t.Errorf("%s: %t, %v", name, got, problems)
		}
	}
}

func TestRequirementsThatTheCRDOfAnotherVersionLetThrough(t *testing.T) {
	for name, c := range map[string]struct {
		of   v1alpha1.Requirement
		want string // the field
	}{
		"no key of a taint": {v1alpha1.Requirement{NoTaint: &v1alpha1.NoTaintRequirement{Effect: "NoSchedule"}},
			"noTaint.key"},
		"an unknown effect of a taint": {v1alpha1.Requirement{NoTaint: &v1alpha1.NoTaintRequirement{Key: "example.com/t",
			Effect: "NoWay"}}, "noTaint.effect"},
		"a selector that cannot be read": {v1alpha1.Requirement{DaemonSets: &v1alpha1.DaemonSetsRequirement{
			Namespaces: []v1alpha1.NamespaceName{"kube-system"},
			Selector:   &v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"a b": "c"}}}},
			"daemonSets.selector"},
	} {
		var problems evidence.Problems
		r := evidence.Compile(&problems, "at", &c.of)
		if len(problems) != 1 || problems[0].Field != "at."+c.want || r.Kind != nil {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// TestTheDeviceOfAResource is known by its domain.
func TestTheDeviceOfAResource(t *testing.T) {
	for name, want := range map[string]string{"nvidia.com/gpu": "nvidia.com", "cpu": ""} {
		if got := (&evidence.Resource{Name: name}).Provider().Domain; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
