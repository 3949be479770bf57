// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// FuzzNodes: no node is ever refused, and what is added can be added; a node that matches has the taint then.
func FuzzNodes(f *testing.F) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	rule := ruleset.Compile(network("a").UID("u").Created(now).Obj(), nil, now)
	admitting, _ := ruleset.NewSet(rule).ForAdmission(nil)
	rules := ruleset.CompileAdmission(admitting)
	w := &Webhook{Rules: func() []ruleset.AdmissionRule { return rules }, Acting: NewEngine(ModeWebhook, true, "").Acting,
		Clock: clocktesting.NewFakePassiveClock(now)}
	good, err := json.Marshal(build.MakeNode("n").Label(poolKey, "a").Annotation(v1alpha1.RecordAnnotationPrefix+"u",
		"{").Obj())
	if err != nil {
		f.Fatal(err)
	}
	for _, op := range []string{"CREATE", "UPDATE", "DELETE", ""} {
		f.Add(op, "nodes", "", good, good)
		f.Add(op, "nodes", "", good, []byte(`{"metadata":{"labels":null}}`))
		f.Add(op, "nodes", "status", good, []byte(nil))
		f.Add(op, "pods", "", []byte("{}"), []byte("null"))
		f.Add(op, "nodes", "", []byte(`{"metadata":{"annotations":{"a/~b":"`+strings.Repeat("x",
			1<<10)+`"},"labels":{"example.com/pool":"a"}},"spec":{"taints":[{}]}}`), []byte(nil))
		f.Add(op, "nodes", "", []byte(nil), []byte(nil))
	}
	f.Fuzz(func(t *testing.T, op, resource, subresource string, object, old []byte) {
		got := w.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Operation(op), Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource},
			SubResource: subresource,
			Object:      runtime.RawExtension{Raw: object}, OldObject: runtime.RawExtension{Raw: old},
		}})
		if !got.Allowed {
			t.Fatalf("refused: %+v", got.Result)
		}
		node := &corev1.Node{}
		if got.Patch == nil || json.Unmarshal(object, node) != nil {
			return
		}
		before, err := json.Marshal(node) // as the API server sends it: every map and list where it belongs
		if err != nil {
			return
		}
		patch, err := jsonpatch.DecodePatch(got.Patch)
		if err != nil {
			t.Fatal(err)
		}
		after, err := patch.Apply(before)
		if err != nil {
			t.Fatalf("the patch %s does not fit: %v", got.Patch, err)
		}
		patched := &corev1.Node{}
		if err := json.Unmarshal(after, patched); err != nil {
			t.Fatal(err)
		}
		if rule.Matches(node.Labels) && len(patched.Spec.Taints) == 0 {
			t.Errorf("patched without a taint: %s", got.Patch)
		}
	})
}
