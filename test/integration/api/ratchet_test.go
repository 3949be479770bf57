// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

// lax takes away every check but the types and what makes an entry of a list: another version's CRD.
func lax(root *apiextensionsv1.JSONSchemaProps) {
	walk("", root, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		s.XValidations, s.Pattern, s.Enum = nil, "", nil
		s.MinLength, s.MaxLength, s.MinItems, s.MaxItems, s.MinProperties, s.MaxProperties = nil, nil, nil, nil, nil, nil
		s.Minimum, s.Maximum = nil, nil
		if !strings.HasSuffix(path, "[]") {
			s.Required = nil
		}
	})
}

// TestStoredRuleThatBreaksANewerRule: a rule that was stored under a laxer CRD can still be suspended, labelled,
// finalized and fixed; and no valid rule can be made to break what it could not be created with.
func TestStoredRuleThatBreaksANewerRule(t *testing.T) {
	const ratchet = "ratchet.example.com"
	// Each breaks one rule of the CRD; fix is a change after which it breaks none.
	stored := map[string]struct{ breaks, fix string }{
		"empty-selector": {"nodeSelector: {matchLabels: null}", "nodeSelector: {matchLabels: {a: b}}"},
		"label-key":      {`nodeSelector: {matchLabels: {"a b": c}}`, `nodeSelector: {matchLabels: {"a b": null}}`},
		"label-value":    {`nodeSelector: {matchLabels: {a: "b c"}}`, "nodeSelector: {matchLabels: {a: b}}"},
		"operator": {"nodeSelector: {matchExpressions: [{key: a, operator: Gt}]}",
			"nodeSelector: {matchExpressions: null}"},
		"operator-values": {"nodeSelector: {matchExpressions: [{key: a, operator: In}]}",
			"nodeSelector: {matchExpressions: null}"},
		"too-many-labels": {"nodeSelector: {matchLabels: {" + words(64, "l%d: x") + "}}",
			"nodeSelector: {matchLabels: {l0: null}}"},
		"no-evidence": {"conditions: null", `conditions: [{type: a, requiredStatus: "True"}]`},
		"too-many-conditions": {"conditions: [" + words(33, `{type: c%d, requiredStatus: "True"}`) + "]",
			`conditions: [{type: a, requiredStatus: "True"}]`},
		"required-status": {"conditions: [{type: a, requiredStatus: Maybe}]",
			`conditions: [{type: a, requiredStatus: "True"}]`},
		"max-age": {`conditions: [{type: a, requiredStatus: "True", maxAgeSeconds: 0}]`,
			`conditions: [{type: a, requiredStatus: "True"}]`},
		"no-effect":        {"taint: null", "taint: {key: a, effect: NoSchedule}"},
		"taint-key":        {"taint: {key: node.kubernetes.io/not-ready}", "taint: {key: a}"},
		"taint-grammar":    {`taint: {key: "a b"}`, "taint: {key: a}"},
		"taint-value":      {`taint: {value: "a b"}`, "taint: {value: a}"},
		"taint-effect":     {"taint: {effect: None}", "taint: {effect: NoSchedule}"},
		"no-mode":          {"enforcementMode: null", "enforcementMode: continuous"},
		"another-mode":     {"enforcementMode: once", "enforcementMode: continuous"},
		"any-of-bootstrap": {"{conditionPolicy: anyOf, enforcementMode: bootstrap-only}", "conditionPolicy: allOf"},
		"default-bootstrap": {
			`{conditions: [{type: a, requiredStatus: "True", defaultStatus: "True"}], enforcementMode: bootstrap-only}`,
			`conditions: [{type: a, requiredStatus: "True"}]`},
		"max-unavailable":       {"maxUnavailable: -1", "maxUnavailable: 1"},
		"max-unavailable-words": {"maxUnavailable: 101%", "maxUnavailable: 100%"},
		"limits":                {"limits: [{max: 1, maxDomains: 1}]", "limits: [{max: 1}]"},
		"both-limits":           {"{maxUnavailable: 1, limits: [{max: 1}]}", "limits: null"},
		"stabilization":         {"stabilization: {readySeconds: -1}", "stabilization: {readySeconds: 1}"},
		"timeout":               {"timeout: {action: Release, seconds: null}", "timeout: {seconds: 1}"},
		"annotation":            {`completionAnnotation: "a b"`, "completionAnnotation: a"},
		"own-annotation":        {"completionAnnotation: nodegate.io/override", "completionAnnotation: null"},
		"requirements":          {"requirements: [{name: a}]", "requirements: null"},
		"probes":                {"probes: [{conditionType: Ready}]", "probes: null"},
		"eviction-guard":        {"evictionGuard: {maxHoldSeconds: 0}", "evictionGuard: null"},
		"health":                {"health: {checks: [{name: weather}]}", "health: null"},
		"node-admission":        {"nodeAdmission: Sometimes", "nodeAdmission: None"},
		"pod-admission":         {"podAdmission: Warn", "podAdmission: None"},
		"pod-admission-soft":    {"{taint: {effect: PreferNoSchedule}, podAdmission: Deny}", "podAdmission: None"},
		"existing-nodes":        {"existingNodes: Some", "existingNodes: None"},
		"one-annotation": {`{completionAnnotation: a, timeout: {seconds: 9, action: Replace,
			replace: {annotation: {key: a}}}}`, "completionAnnotation: null"},
		"several-at-once": {
			`{nodeSelector: {matchLabels: null}, taint: {key: "a b", effect: x}, conditionPolicy: anyOf,
				enforcementMode: bootstrap-only, maxUnavailable: -1}`,
			`{nodeSelector: {matchLabels: {a: b}}, taint: {key: a, effect: NoSchedule}, conditionPolicy: allOf,
				maxUnavailable: 1}`},
	}
	installVariant(t, ratchet, lax)
	for name, s := range stored {
		if err := kube.Create(t.Context(), rule(t, ratchet, name, changed(t, plainSpec, s.breaks))); err != nil {
			t.Fatalf("storing %q under the laxer CRD: %v", name, err)
		}
	}
	cluster.Must(t, kube.Create(t.Context(), rule(t, ratchet, "valid", plainSpec)))
	installVariant(t, ratchet, asItIs)
	NewWithT(t).Eventually(func() error {
		return kube.Create(t.Context(), rule(t, ratchet, "probe", changed(t, plainSpec, "taint: null")), client.DryRunAll)
	}).WithTimeout(cluster.Limit).Should(HaveOccurred(), "the API server validates by the stricter CRD")

	edit := func(t *testing.T, name, spec string, opts ...client.PatchOption) error {
		t.Helper()
		u := rule(t, ratchet, name, spec)
		patch, err := json.Marshal(map[string]any{"spec": u.Object["spec"]})
		cluster.Must(t, err)
		return kube.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, patch), opts...)
	}
	for name, s := range stored {
		t.Run(name, func(t *testing.T) {
			broken := rule(t, ratchet, "as-new", changed(t, plainSpec, s.breaks))
			if err := kube.Create(t.Context(), broken, client.DryRunAll); err == nil {
				t.Fatal("could be created under the CRD, so that this shows nothing")
			}
			for _, elsewhere := range []string{"suspend: true", "suspend: null", "dryRun: true",
				"stabilization: {unreadySeconds: 7}", "rearmOn: [Reboot]"} {
				if err := edit(t, name, elsewhere); err != nil {
					t.Errorf("cannot be edited elsewhere, %s: %v", elsewhere, err)
				}
			}
			u := rule(t, ratchet, name, "{}")
			finalize := `{"metadata":{"finalizers":["readiness.node.x-k8s.io/cleanup-taints"],"labels":{"a":"b"}}}`
			if err := kube.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(finalize))); err != nil {
				t.Errorf("cannot be finalized: %v", err)
			}
			status := `{"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"False",` +
				`"reason":"Invalid","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
			if err := kube.Status().Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(status))); err != nil &&
				server.Has(t, cluster.StatusRatcheting) {
				t.Errorf("cannot be reported on: %v", err)
			}
			if err := edit(t, name, s.fix); err != nil {
				t.Errorf("cannot be fixed: %v", err)
			}
			if err := edit(t, name, s.breaks, client.DryRunAll); err == nil {
				t.Error("once fixed, it can be broken again")
			}
			if err := edit(t, "valid", s.breaks, client.DryRunAll); err == nil {
				t.Error("a valid rule can be made to break this")
			}
			release := `{"metadata":{"finalizers":null}}`
			if err := kube.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(release))); err != nil {
				t.Errorf("its finalizer cannot be removed: %v", err)
			}
		})
	}
}

// TestIncumbentStatus: a rule with a status as the incumbent controller writes it can be edited, and its finalizer
// removed, with our CRD in place.
func TestIncumbentStatus(t *testing.T) {
	u := rule(t, group, "taken-over", plainSpec)
	cluster.Must(t, kube.Create(t.Context(), u))
	defer remove(t, u)
	status := fmt.Sprintf(`{"status":{"observedGeneration":1,"appliedNodes":["n1","n2"],
		"failedNodes":[{"nodeName":"n3","reason":"EvaluationError","message":"m","lastEvaluationTime":%[1]q}],
		"nodeEvaluations":[{"nodeName":"n1","taintStatus":"Present","lastEvaluationTime":%[1]q,
			"conditionResults":[{"type":"a","currentStatus":"Unknown","requiredStatus":"True","defaultStatus":"Unknown"}]}],
		"dryRunResults":{"affectedNodes":2,"taintsToAdd":1,"taintsToRemove":0,"riskyOperations":1,"summary":"s"}}}`,
		metav1.Now().UTC().Format("2006-01-02T15:04:05Z"))
	if err := kube.Status().Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(status))); err != nil {
		t.Errorf("the incumbent's status, strictly: %v", err)
	}
	if err := kube.Patch(t.Context(), u, client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"suspend":true}}`))); err != nil {
		t.Errorf("an edit: %v", err)
	}
}
