// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// TestTheWebhookTaintsNodes: requests that make a node match a rule, and those that the webhook leaves as they are. The
// API server would reject the update of a kubelet that adds a taint.
func TestTheWebhookTaintsNodes(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	rule := ruleset.Compile(network("a").UID("u").Created(now).Obj(), nil, now)
	object, _ := ruleset.NewSet(rule).ForAdmission(nil)
	raw := func(n *build.NodeWrapper) runtime.RawExtension {
		out, err := json.Marshal(n.Obj())
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: out}
	}
	node := func() *build.NodeWrapper { return build.MakeNode("n").Created(now) }
	matches, other := raw(node().Label(poolKey, "a")), raw(node())
	tainted := raw(node().Label(poolKey, "a").Taint(taintKey, "", corev1.TaintEffectNoSchedule))
	const create, update = admissionv1.Create, admissionv1.Update
	kubelet := []string{"system:nodes", "system:authenticated"}
	for name, c := range map[string]struct {
		operation       admissionv1.Operation
		groups          []string
		old, node       runtime.RawExtension
		resource, part  string
		dryRun          bool
		engine          Mode
		taints, ignored bool
		counted         float64
	}{
		"a kubelet creates the node": {operation: create, groups: kubelet, node: matches, taints: true,
			counted: 1},
		"a user creates it":                       {operation: create, node: matches, taints: true, counted: 1},
		"a user tries to create it":               {operation: create, node: matches, dryRun: true, taints: true},
		"a node that no rule matches":             {operation: create, node: other},
		"a user labels it":                        {operation: update, old: other, node: matches, taints: true, counted: 1},
		"its kubelet labels it":                   {operation: update, groups: kubelet, old: other, node: matches},
		"a user labels a node that has the taint": {operation: update, old: other, node: tainted},
		"a user updates it":                       {operation: update, old: matches, node: matches},
		"another engine is active":                {operation: create, node: matches, engine: ModeOff},
		"its status": {operation: update, old: other, node: matches, part: "status",
			ignored: true},
		"another resource": {operation: create, node: matches, resource: "pods", ignored: true},
		"its deletion": {operation: admissionv1.Delete, old: matches, node: matches,
			ignored: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.resource == "" {
				c.resource = "nodes"
			}
			if c.engine == "" {
				c.engine = ModeWebhook
			}
			w := &Webhook{Acting: NewEngine(c.engine, true, "").Acting, Clock: clocktesting.NewFakePassiveClock(now),
				Rules: func() []ruleset.AdmissionRule { return ruleset.CompileAdmission(object) }}
			before := testutil.ToFloat64(admittedTaints.WithLabelValues(string(EngineWebhook)))
			got := w.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: c.operation, Resource: metav1.GroupVersionResource{Version: "v1", Resource: c.resource},
				SubResource: c.part, UserInfo: authenticationv1.UserInfo{Username: "u", Groups: c.groups}, DryRun: &c.dryRun,
				OldObject: c.old, Object: c.node}})
			patched := got.PatchType != nil && *got.PatchType == admissionv1.PatchTypeJSONPatch
			if !got.Allowed || patched != c.taints || patched != (len(got.Patch) > 0) {
				t.Errorf("allowed %t, patch %q, want a taint: %t", got.Allowed, got.Patch, c.taints)
			}
			if ignored := len(got.Warnings) > 0; ignored != c.ignored {
				t.Errorf("warnings: %q", got.Warnings)
			}
			after := testutil.ToFloat64(admittedTaints.WithLabelValues(string(EngineWebhook)))
			if after-before != c.counted {
				t.Errorf("counted %g taints, want %g", after-before, c.counted)
			}
		})
	}
}

// TestTheActiveEngine: the policy taints nodes if it, its binding and its rules are there, and otherwise the webhook.
// The mode can exclude either.
func TestTheActiveEngine(t *testing.T) {
	for name, c := range map[string]struct {
		mode    Mode
		webhook bool
		there   []string
		want    Kind
	}{
		"all are there":                        {ModeAuto, true, []string{"policy", "binding", "rules"}, EnginePolicy},
		"the policy is not there":              {ModeAuto, true, []string{"binding", "rules"}, EngineWebhook},
		"its binding is not there":             {ModeAuto, true, []string{"policy", "rules"}, EngineWebhook},
		"its rules are not there":              {ModeAuto, true, []string{"policy", "binding"}, EngineWebhook},
		"nothing is there":                     {ModeAuto, false, nil, EngineNone},
		"only the policy, without its rules":   {ModePolicy, true, []string{"policy", "binding"}, EngineNone},
		"only the policy":                      {ModePolicy, true, []string{"policy", "binding", "rules"}, EnginePolicy},
		"only the webhook":                     {ModeWebhook, true, []string{"policy", "binding", "rules"}, EngineWebhook},
		"only the webhook, which is not there": {ModeWebhook, false, []string{"policy", "binding", "rules"}, EngineNone},
		"off":                                  {ModeOff, true, []string{"policy", "binding", "rules"}, EngineNone},
	} {
		e := NewEngine(c.mode, c.webhook, "p")
		for _, part := range c.there {
			e.set(part, true)
		}
		if got := e.Acting(); got != c.want {
			t.Errorf("%s: %s is active, want %s", name, got, c.want)
		}
		for _, kind := range []Kind{EnginePolicy, EngineWebhook, EngineNone} {
			if shown := testutil.ToFloat64(engineInfo.WithLabelValues(string(kind))) == 1; shown != (kind == c.want) {
				t.Errorf("%s: the metric shows %s: %t", name, kind, shown)
			}
		}
	}
}
