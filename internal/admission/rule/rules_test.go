// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodegate/nodegate/api/v1alpha1"
	webhooks "github.com/nodegate/nodegate/internal/admission"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
	"github.com/nodegate/nodegate/test/build"
)

var now = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

func network(name string) *build.RuleWrapper {
	return build.MakeRule(name).UID("u-"+name).Created(now).Generation(1).Condition("example.com/CNIReady").
		Selector("example.com/pool", "workers").Taint("readiness.k8s.io/"+name, "pending", corev1.TaintEffectNoSchedule)
}

func expression(r *build.RuleWrapper, text string) *build.RuleWrapper {
	return r.Evidence(v1alpha1.Requirement{Name: "cel", CEL: &v1alpha1.CELRequirement{Expression: text}})
}

// waits returns a rule that waits for the taint of another one.
func waits(name, taint, other string) *build.RuleWrapper {
	return network(name).Taint("example.com/"+taint, "", corev1.TaintEffectNoSchedule).Without("example.com/" + other)
}

// publishes returns a rule that publishes a condition, and requires another one.
func publishes(name, other string) *build.RuleWrapper {
	return network(name).Publish("example.com/" + name).Condition("example.com/" + other)
}

func serve(rules ...*build.RuleWrapper) *Webhook {
	var compiled []*ruleset.Rule
	for _, r := range rules {
		compiled = append(compiled, ruleset.Compile(r.Obj(), nil, now))
	}
	set := ruleset.NewSet(compiled...)
	return &Webhook{
		Rules: func() *ruleset.Set { return set },
		Facts: func(context.Context, ...*ruleset.Rule) (lint.Facts, error) {
			return lint.Facts{}, errors.New("nothing is known")
		},
		Clock: clocktesting.NewFakePassiveClock(now),
	}
}

func review(t *testing.T, old, rule *build.RuleWrapper) admission.Request {
	t.Helper()
	raw := func(r *build.RuleWrapper) runtime.RawExtension {
		if r == nil {
			return runtime.RawExtension{}
		}
		out, err := json.Marshal(r.Obj())
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: out}
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create,
		Object: raw(rule), OldObject: raw(old)}}
	if old != nil {
		req.Operation = admissionv1.Update
	}
	return req
}

func TestRules(t *testing.T) {
	const bad = "node.status.nodeInfo.kernelVersion == 6"
	published, ageOnly := []*build.RuleWrapper{publishes("b", "c")}, network("a").FreshCondition("example.com/b", 900)
	ageOnly.Spec.Conditions = ageOnly.Spec.Conditions[1:]
	for name, c := range map[string]struct {
		others    []*build.RuleWrapper
		old, rule *build.RuleWrapper
		refused   []string
		warned    string
	}{
		"a good rule": {rule: network("a")},
		"one that is warned": {others: []*build.RuleWrapper{network("b").Taint("readiness.k8s.io/a", "",
			corev1.TaintEffectNoSchedule)}, rule: network("a"), warned: "rule b has the same taint"},

		"an expression of the wrong type": {rule: expression(network("a"), bad),
			refused: []string{"spec.requirements[0].cel.expression", "ERROR: <input>:1:36"}},
		"an expression that is no bool": {rule: expression(network("a"), "1 + 1"),
			refused: []string{"spec.requirements[0].cel.expression", "must be a bool"}},
		"an expression that was bad and is touched": {old: expression(network("a"), bad),
			rule: expression(network("a"), bad+" "), refused: []string{"1:36"}},
		"an expression that was bad and is not": {old: expression(network("a"), bad),
			rule: expression(network("a"), bad).Suspend(true)},
		"an expression that is fixed": {old: expression(network("a"), bad),
			rule: expression(network("a"), "true")},

		"a circle of one": {rule: network("a").After("a"), refused: []string{"spec.requirements", "a requires a"}},
		"a circle of three": {others: []*build.RuleWrapper{network("b").After("c"), network("c").After("a")},
			rule: network("a").After("b"), refused: []string{"a requires b requires c requires a"}},
		"a circle of taints": {
			others: []*build.RuleWrapper{
				network("b").Taint("example.com/b", "", corev1.TaintEffectNoSchedule).Without("example.com/a")},
			rule:    network("a").Taint("example.com/a", "", corev1.TaintEffectNoSchedule).Without("example.com/b"),
			refused: []string{"a requires b requires a"}},
		"a circle that a new taint closes": {others: []*build.RuleWrapper{waits("b", "b", "a")},
			old: waits("a", "z", "b"), rule: waits("a", "a", "b"), refused: []string{"a requires b requires a"}},
		"a circle that a new selector closes": {others: []*build.RuleWrapper{waits("b", "b", "a")},
			old: waits("a", "a", "b").Selector("example.com/pool", "gpu"), rule: waits("a", "a", "b"),
			refused: []string{"a requires b requires a"}},
		"a circle that the end of dry-run closes": {others: []*build.RuleWrapper{waits("b", "b", "a")},
			old: waits("a", "a", "b").DryRun(true), rule: waits("a", "a", "b"),
			refused: []string{"a requires b requires a"}},
		"a circle of taints that is there and not touched": {others: []*build.RuleWrapper{waits("b", "b", "a")},
			old: waits("a", "a", "b"), rule: waits("a", "a", "b").Suspend(true)},
		"a circle of conditions that the end of dry-run closes": {others: []*build.RuleWrapper{publishes("b", "a")},
			old: publishes("a", "b").DryRun(true), rule: publishes("a", "b"),
			refused: []string{"a requires b requires a"}},
		"a circle of conditions that a new selector closes": {others: []*build.RuleWrapper{publishes("b", "a")},
			old: publishes("a", "b").Selector("example.com/pool", "gpu"), rule: publishes("a", "b"),
			refused: []string{"a requires b requires a"}},
		"a circle of conditions that is there, and other nodes": {others: []*build.RuleWrapper{publishes("b", "a")},
			old: publishes("a", "b"), rule: publishes("a", "b").Selector("example.com/zone", "a")},
		"an age of a published condition, and another condition is gone": {others: published,
			old: network("a").FreshCondition("example.com/b", 900), rule: ageOnly},
		"an age of a published condition, and another condition comes": {others: published,
			old: ageOnly, rule: network("a").FreshCondition("example.com/b", 900)},
		"an age of a published condition comes": {others: published, old: network("a"),
			rule:    network("a").FreshCondition("example.com/b", 900),
			refused: []string{"spec.conditions[1].maxAgeSeconds", "published by rule b"}},
		"a chain": {others: []*build.RuleWrapper{network("b").After("c"), network("c")},
			rule: network("a").After("b")},
		"a circle that is there and not touched": {others: []*build.RuleWrapper{network("b").After("a")},
			old: network("a").After("b"), rule: network("a").After("b").Suspend(true)},
		"a circle that is there and opened": {others: []*build.RuleWrapper{network("b").After("a")},
			old: network("a").After("b"), rule: network("a")},

		"the removal of the finalizer": {others: []*build.RuleWrapper{network("b").After("a")},
			old: network("a").After("b").Deleted(now), rule: network("a").After("b")},
		"a rule that is being deleted": {old: network("a").Deleted(now), rule: expression(network("a"), bad).Deleted(now)},
		"a label":                      {old: expression(network("a"), bad), rule: expression(network("a"), bad)},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(c.others...)
			got := w.Handle(t.Context(), review(t, c.old, c.rule))
			if got.Allowed != (c.refused == nil) {
				t.Errorf("allowed %t: %+v", got.Allowed, got.Result)
			}
			for _, want := range c.refused {
				if got.Result == nil || got.Result.Code != 422 || !strings.Contains(got.Result.Message, want) {
					t.Errorf("it does not say %q: %+v", want, got.Result)
				}
			}
			if all := strings.Join(got.Warnings, "\n"); !strings.Contains(all, c.warned) || c.warned == "" &&
				strings.Contains(all, "same taint") {
				t.Errorf("warnings %q, want %q", all, c.warned)
			}
		})
	}
}

// FuzzRules: no review makes it fail, and none that it cannot read is refused.
func FuzzRules(f *testing.F) {
	good, err := json.Marshal(network("a").Obj())
	if err != nil {
		f.Fatal(err)
	}
	for _, op := range []string{"CREATE", "UPDATE", "DELETE", "CONNECT", ""} {
		f.Add(op, good, good)
		f.Add(op, []byte(nil), []byte(nil))
		f.Add(op, []byte("{"), []byte(`[]`))
		f.Add(op, []byte(`{"spec":{"taint":null,"requirements":[{"cel":{"expression":"("}},{}]}}`), []byte("null"))
		f.Add(op, []byte(`{"kind":"Pod","spec":{"nodeSelector":{"a":"b"}}}`), good)
	}
	w := serve(network("b"))
	f.Fuzz(func(t *testing.T, operation string, object, old []byte) {
		req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Operation(operation),
			Object: runtime.RawExtension{Raw: object}, OldObject: runtime.RawExtension{Raw: old}}}
		got := w.Handle(t.Context(), req)
		if got.Allowed {
			return
		}
		rule, err := webhooks.Decode[v1alpha1.NodeReadinessRule](object)
		if err != nil || !rule.DeletionTimestamp.IsZero() || operation == "DELETE" {
			t.Errorf("refused: %+v", got.Result)
		}
	})
}
