// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestIncumbentManifests: what kubernetes-sigs/node-readiness-controller accepts applies unchanged, and reads back as
// it was written.
func TestIncumbentManifests(t *testing.T) {
	withConditions := func(conditions string) string {
		return "{conditionPolicy: null, conditions: [" + conditions + "]}"
	}
	for name, spec := range map[string]string{
		"the rule of its CNI guide": `
conditions:
- type: "projectcalico.org/CalicoReady"
  requiredStatus: "True"
taint:
  key: "readiness.k8s.io/NetworkReady"
  effect: "NoSchedule"
  value: "pending"
enforcementMode: "bootstrap-only"
nodeSelector:
  matchLabels:
    node-role.kubernetes.io/worker: ""
`,
		"dry-run":           changed(t, plainSpec, "dryRun: true"),
		"dry-run, said off": changed(t, plainSpec, "dryRun: false"),
		"anyOf with assumed statuses": changed(t, plainSpec, `{conditionPolicy: anyOf, conditions: [
			{type: MemoryPressure, requiredStatus: "False", defaultStatus: "False"},
			{type: KernelDeadlock, requiredStatus: "False", defaultStatus: Unknown},
			{type: example.com/Lost, requiredStatus: Unknown, defaultStatus: "True"}]}`),
		"allOf, said": changed(t, plainSpec, "{conditionPolicy: allOf, enforcementMode: bootstrap-only}"),
		"the most conditions": changed(t, plainSpec,
			withConditions(words(32, `{type: example.com/c%d, requiredStatus: "True"}`))),
		"the longest condition": changed(t, plainSpec,
			withConditions(`{type: "`+strings.Repeat("t", 316)+`", requiredStatus: Unknown}`)),
		"a condition of a word": changed(t, plainSpec, withConditions(`{type: "any words, really", requiredStatus: "True"}`)),
		"the longest taint": changed(t, plainSpec, `taint: {key: readiness.k8s.io/`+strings.Repeat("k",
			63)+`, value: `+strings.Repeat("v", 63)+`, effect: NoExecute}`),
		"the shortest taint": changed(t, plainSpec, "taint: {key: readiness.k8s.io/x, value: null, effect: "+
			"PreferNoSchedule}"),
		"a taint with no value": changed(t, plainSpec, `taint: {value: ""}`),
		"a taint off a node":    changed(t, plainSpec, `taint: {timeAdded: "2026-01-02T03:04:05Z"}`),
		"all kinds of selectors": changed(t, plainSpec, `nodeSelector: {
			matchLabels: {example.com/pool: null, kubernetes.io/os: linux, Zone: ""}, matchExpressions: [
			{key: a, operator: In, values: [x, "y", ""]}, {key: example.com/b, operator: NotIn, values: [z]},
			{key: c, operator: Exists}, {key: d, operator: DoesNotExist}]}`),
		"lists that are empty": changed(t, plainSpec, `nodeSelector: {matchExpressions: []}`),
	} {
		t.Run(name, func(t *testing.T) {
			sent := rule(t, group, "incumbent", spec)
			created := sent.DeepCopy()
			if err := create(t, created); err != nil {
				t.Fatalf("kubectl create: %v", err)
			}
			defer remove(t, created)
			if diff := cmp.Diff(sent.Object["spec"], created.Object["spec"]); diff != "" {
				t.Errorf("reads back otherwise than it was written (-written +read):\n%s", diff)
			}
			if err := kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(sent), client.FieldOwner("kubectl"),
				client.ForceOwnership); err != nil {
				t.Errorf("kubectl apply --server-side: %v", err)
			}
		})
	}
}
