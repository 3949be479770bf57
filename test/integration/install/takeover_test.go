// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// oldValues are values of the Node Readiness Controller's chart.
const oldValues = `
nodeReadinessRules:
- name: taken-over
  nodeSelector: {matchLabels: {example.com/pool: taken-over}}
  conditions: [{type: example.com/Ready, requiredStatus: "True"}]
  taint: {key: readiness.k8s.io/TakenOver, value: pending, effect: NoSchedule}
  enforcementMode: continuous
`

// TestChartTakeover goes by the page about the Node Readiness Controller: a release of its chart was let go, and the
// chart takes over its rules.
func TestChartTakeover(t *testing.T) {
	rule := build.MakeRule("taken-over").Selector("example.com/pool", "taken-over").Condition("example.com/Ready").
		Taint("readiness.k8s.io/TakenOver", "pending", corev1.TaintEffectNoSchedule).Obj()
	rule.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	rule.Annotations = map[string]string{"meta.helm.sh/release-name": "nrr",
		"meta.helm.sh/release-namespace": "nrr-system"}
	create(t, rule)
	before := rule.UID
	release := []string{"taker", "-n", "taker", "--kubeconfig", control.Kubeconfig()}
	_, err := tool(t.Context(), "helm", append([]string{"install", "--create-namespace", "--take-ownership", "-f",
		valuesFile(t, oldValues), "--set=replicas=0,recordGuard.enabled=false"},
		append(release, "charts/nodegate")...)...)
	cluster.Must(t, err)
	cluster.Must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(rule), rule))
	if rule.UID != before || rule.Annotations["meta.helm.sh/release-name"] != "taker" || !rule.DeletionTimestamp.IsZero() {
		t.Errorf("the rule is not the same one, of the new release: %+v", rule.ObjectMeta)
	}
	_, err = tool(t.Context(), "helm", append([]string{"uninstall", "--no-hooks"}, release...)...)
	cluster.Must(t, err)
}
