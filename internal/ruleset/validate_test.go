// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

func TestValidate(t *testing.T) {
	edit := func(f func(s *v1alpha1.NodeReadinessRuleSpec)) *build.RuleWrapper {
		r := valid()
		f(&r.Spec)
		return r
	}
	type spec = v1alpha1.NodeReadinessRuleSpec
	cases := map[string]struct {
		rule *build.RuleWrapper
		want []string // reason and field
	}{
		"a plain rule": {rule: valid()},
		"one with everything that is supported": {rule: valid().Require(v1alpha1.ConditionRequirement{Type: "x", RequiredStatus: "False", DefaultStatus: "False"}).
			AnyOf().RearmOnReboot().ExistingNodes("None").ReadySeconds(1).UnreadySeconds(2).MinimumHoldSeconds(3).MaxUnavailable("30%").
			Timeout(900, 300, "Release").CompletionAnnotation("startup.k8s.io/completedAt")},
		"admission and podAdmission None": {rule: edit(func(s *spec) { s.Admission, s.PodAdmission = "None", "None" })},
		"taint keys of other domains":     {rule: valid().Taint("startup.k8s.io/initializing", "wait", "NoSchedule")},
		"a taint key without a domain":    {rule: valid().Taint("pending", "", "PreferNoSchedule")},

		"no selector":        {rule: edit(func(s *spec) { s.NodeSelector = v1alpha1.NodeSelector{} }), want: []string{"Invalid spec.nodeSelector"}},
		"a broken selector":  {rule: valid().SelectorExpression("pool", "In"), want: []string{"Invalid spec.nodeSelector"}},
		"no evidence":        {rule: edit(func(s *spec) { s.Conditions = nil }), want: []string{"Invalid spec.conditions"}},
		"no type":            {rule: valid().Condition(""), want: []string{"Invalid spec.conditions[1].type"}},
		"an unknown status":  {rule: valid().Require(v1alpha1.ConditionRequirement{Type: "x", RequiredStatus: "Maybe"}), want: []string{"Invalid spec.conditions[1].requiredStatus"}},
		"an unknown default": {rule: valid().Require(v1alpha1.ConditionRequirement{Type: "x", RequiredStatus: "True", DefaultStatus: "Maybe"}), want: []string{"Invalid spec.conditions[1].defaultStatus"}},
		"a default with bootstrap-only": {
			rule: valid().BootstrapOnly().Require(v1alpha1.ConditionRequirement{Type: "x", RequiredStatus: "True", DefaultStatus: "True"}),
			want: []string{"Invalid spec.conditions[1].defaultStatus"},
		},
		"anyOf with bootstrap-only": {rule: valid().BootstrapOnly().AnyOf(), want: []string{"Invalid spec.conditionPolicy"}},
		"a maximum age of nothing":  {rule: valid().FreshCondition("x", 0), want: []string{"Invalid spec.conditions[1].maxAgeSeconds"}},

		"no effect":          {rule: edit(func(s *spec) { s.Taint = nil }), want: []string{"Invalid spec"}},
		"a taint of kubelet": {rule: valid().Taint("node.kubernetes.io/not-ready", "", "NoSchedule"), want: []string{"Invalid spec.taint.key"}},
		"a taint of the cloud provider": {
			rule: valid().Taint("node.cloudprovider.kubernetes.io/uninitialized", "", "NoSchedule"), want: []string{"Invalid spec.taint.key"},
		},
		"a taint of a role":          {rule: valid().Taint("node-role.kubernetes.io/control-plane", "", "NoSchedule"), want: []string{"Invalid spec.taint.key"}},
		"a taint key with a blank":   {rule: valid().Taint("example.com/a b", "", "NoSchedule"), want: []string{"Invalid spec.taint.key"}},
		"a taint value with a blank": {rule: valid().Taint("example.com/a", "a b", "NoSchedule"), want: []string{"Invalid spec.taint.value"}},
		"an unknown effect":          {rule: valid().Taint("example.com/a", "", "Whatever"), want: []string{"Invalid spec.taint.effect"}},
		"a taint without a mode":     {rule: edit(func(s *spec) { s.EnforcementMode = "" }), want: []string{"Invalid spec.enforcementMode"}},

		"a mode of another version":            {rule: edit(func(s *spec) { s.EnforcementMode = "sometimes" }), want: []string{"Unsupported spec.enforcementMode"}},
		"a policy of another version":          {rule: edit(func(s *spec) { s.ConditionPolicy = "mostOf" }), want: []string{"Unsupported spec.conditionPolicy"}},
		"a re-arming event of another version": {rule: edit(func(s *spec) { s.RearmOn = []v1alpha1.RearmEvent{"Reboot", "FullMoon"} }), want: []string{"Unsupported spec.rearmOn[1]"}},
		"a timeout action of another version":  {rule: valid().Timeout(5, 0, "Panic"), want: []string{"Unsupported spec.timeout.action"}},
		"an existingNodes of another version":  {rule: valid().ExistingNodes("Some"), want: []string{"Unsupported spec.existingNodes"}},
		"an admission of another version":      {rule: edit(func(s *spec) { s.Admission = "Label" }), want: []string{"Unsupported spec.admission"}},
		"a podAdmission of another version":    {rule: edit(func(s *spec) { s.PodAdmission = "Warn" }), want: []string{"Unsupported spec.podAdmission"}},
		"podAdmission: Deny":                   {rule: edit(func(s *spec) { s.PodAdmission = "Deny" })},
		"podAdmission: Deny without a taint": {rule: edit(func(s *spec) {
			s.PodAdmission, s.Taint, s.Health = "Deny", nil, &v1alpha1.Health{Checks: []v1alpha1.HealthCheck{{Name: "node_ready"}}}
		}), want: []string{"Invalid spec.podAdmission"}},
		"a timeout of nothing": {rule: valid().Timeout(0, 0, "Keep"), want: []string{"Invalid spec.timeout"}},
		"a negative window":    {rule: valid().ReadySeconds(-1), want: []string{"Invalid spec.stabilization"}},

		"a negative limit":              {rule: valid().MaxUnavailable("-1"), want: []string{"Invalid spec.maxUnavailable"}},
		"a limit that is no number":     {rule: valid().MaxUnavailable("some"), want: []string{"Invalid spec.maxUnavailable"}},
		"a number as a string":          {rule: edit(func(s *spec) { s.MaxUnavailable = new(intstr.FromString("3")) }), want: []string{"Invalid spec.maxUnavailable"}},
		"a percentage of more than all": {rule: valid().MaxUnavailable("101%"), want: []string{"Invalid spec.maxUnavailable"}},

		// These would make the API server refuse the patch that is shared with all other rules, or forge their records.
		"a completion annotation that is no key":      {rule: valid().CompletionAnnotation("a b"), want: []string{"Invalid spec.completionAnnotation"}},
		"a completion annotation that is a record":    {rule: valid().CompletionAnnotation(v1alpha1.RecordAnnotationPrefix + "x"), want: []string{"Invalid spec.completionAnnotation"}},
		"a completion annotation that is a marker":    {rule: valid().CompletionAnnotation(v1alpha1.BootstrapAnnotationPrefix + "x"), want: []string{"Invalid spec.completionAnnotation"}},
		"a completion annotation that is an override": {rule: valid().CompletionAnnotation(v1alpha1.OverrideAnnotation), want: []string{"Invalid spec.completionAnnotation"}},

		"what this version does not do yet": {
			rule: edit(func(s *spec) {
				s.Requirements = []v1alpha1.Requirement{{Name: "x"}, {Name: "y", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "z"}}}
				s.PodAdmission, s.Admission, s.ExistingNodes = "Deny", "Taint", "Idle"
			}),
			want: []string{
				"Unsupported spec.requirements[0]"},
		},
		"all that is wrong is said": {
			rule: valid().Taint("a b", "c d", "e"),
			want: []string{"Invalid spec.taint.key", "Invalid spec.taint.value", "Invalid spec.taint.effect"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range Validate(&c.rule.Spec) {
				got = append(got, p.Reason+" "+p.Field)
				if p.Message == "" || !strings.HasPrefix(p.String(), p.Field+": ") {
					t.Errorf("%q does not say what is wrong", p.String())
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProblemWithoutAField(t *testing.T) {
	if got := (Problem{Message: "not ours"}).String(); got != "not ours" {
		t.Errorf("it says %q", got)
	}
}
