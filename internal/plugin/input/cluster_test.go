// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestCompileFreezesWhatTheOperatorFroze: only the operator knows why, so its report counts for the version of the rule
// that it is about.
func TestCompileFreezesWhatTheOperatorFroze(t *testing.T) {
	frozen := func(reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason,
			ObservedGeneration: 1}
	}
	edited, ready := frozen(ruleset.ReasonForbiddenKey), frozen(ruleset.ReasonForbiddenKey)
	edited.ObservedGeneration, ready.Status = 0, metav1.ConditionTrue
	for name, c := range map[string]struct {
		reported metav1.Condition
		want     ruleset.Mode
	}{
		"its evidence cannot be read":          {frozen(ruleset.ReasonUnavailable), ruleset.Frozen},
		"the CRD is another controller's":      {frozen(ruleset.ReasonForeignCRD), ruleset.Frozen},
		"its taint is another controller's":    {frozen(ruleset.ReasonForeignRule), ruleset.Frozen},
		"its key is forbidden":                 {frozen(ruleset.ReasonForbiddenKey), ruleset.Frozen},
		"its evidence is being read":           {frozen(ruleset.ReasonPending), ruleset.Enforced},
		"its key was forbidden before an edit": {edited, ruleset.Enforced},
		"it is in force":                       {ready, ruleset.Enforced},
	} {
		t.Run(name, func(t *testing.T) {
			rule := build.MakeRule("gpu").Selector("gpu", "true").Condition("example.com/GPU").Taint("example.com/gpu", "",
				corev1.TaintEffectNoSchedule).Obj()
			rule.Generation, rule.Status.Conditions = 1, []metav1.Condition{c.reported}
			got := Compile([]v1alpha1.NodeReadinessRule{*rule}, now).Named("gpu")
			if got.Mode != c.want {
				t.Fatalf("the rule is %s, want %s", got.Mode, c.want)
			}
			if c.want == ruleset.Frozen && got.Problems[0].Reason != c.reported.Reason {
				t.Errorf("it is frozen for %s", got.Problems[0].Reason)
			}
		})
	}
}

// TestPrefixes reads the lists in the arguments of the operator's deployment as the operator does.
func TestPrefixes(t *testing.T) {
	for name, c := range map[string]struct {
		args            []string
		keys, transient []string
	}{
		"neither": {args: []string{"--leader-elect"}, transient: evidence.DefaultTransientTaintPrefixes},
		"one list each": {[]string{"--rule-key-prefixes=a/,b/", "--transient-taint-prefixes=c/"}, []string{"a/", "b/"},
			[]string{"c/"}},
		"two arguments": {[]string{"--rule-key-prefixes", "a/", "--transient-taint-prefixes", "c/"}, []string{"a/"},
			[]string{"c/"}},
		"several lists": {[]string{"--rule-key-prefixes=a/", "--rule-key-prefixes=b/", "--transient-taint-prefixes=c/",
			"--transient-taint-prefixes=d/"}, []string{"a/", "b/"}, []string{"c/", "d/"}},
		"empty": {[]string{"--rule-key-prefixes=", "--transient-taint-prefixes="}, []string{}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "manager", Namespace: Namespace,
				Labels: OperatorLabels}}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Args: c.args}}
			cluster := &Cluster{WithWatch: fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(d).Build()}
			if diff := cmp.Diff(c.keys, cluster.RuleKeyPrefixes(t.Context())); diff != "" {
				t.Errorf("of keys: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.transient, cluster.TransientTaintPrefixes(t.Context())); diff != "" {
				t.Errorf("of transient taints: -want +got\n%s", diff)
			}
		})
	}
}
