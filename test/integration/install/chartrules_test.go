// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// ruled are values with a rule.
const ruled = `
replicas: 0
crds: {upgrade: false}
commonLabels: {team: nodes}
rules:
  of-the-chart:
    spec:
      nodeSelector: {matchLabels: {example.com/pool: charted}}
      conditions: [{type: example.com/Ready, requiredStatus: "True"}]
      taint: {key: readiness.k8s.io/Charted, value: pending, effect: NoSchedule}
      enforcementMode: continuous
`

// valuesFile writes values of a chart into a file that is removed when the test ends.
func valuesFile(t *testing.T, values string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	cluster.Must(t, os.WriteFile(path, []byte(values), 0o600))
	return path
}

// chartRulesOnAFirstInstall: the chart installs the CRD and rules at once. Upgrades change and delete rules.
func chartRulesOnAFirstInstall(t *testing.T, empty *cluster.Cluster) {
	helm := func(command string, more ...string) {
		t.Helper()
		_, err := tool(t.Context(), "helm", append([]string{command, "nodegate", "charts/nodegate", "-n", namespace,
			"--kubeconfig", empty.Kubeconfig(), "-f", valuesFile(t, ruled)}, more...)...)
		cluster.Must(t, err)
	}
	helm("install", "--create-namespace")
	c := empty.Client
	rule := &v1alpha1.NodeReadinessRule{}
	key := client.ObjectKey{Name: "of-the-chart"}
	cluster.Must(t, c.Get(t.Context(), key, rule))
	if l := rule.Labels; l["team"] != "nodes" || l["app.kubernetes.io/instance"] != "nodegate" ||
		rule.Spec.Taint.Key != "readiness.k8s.io/Charted" {
		t.Errorf("the rule is not as in the values: %v %+v", rule.Labels, rule.Spec)
	}

	// The operator adds a finalizer, which an upgrade must not remove.
	rule.Finalizers = append(rule.Finalizers, v1alpha1.Served().Finalizer)
	cluster.Must(t, c.Update(t.Context(), rule))
	helm("upgrade", "--set", "rules.of-the-chart.spec.suspend=true")
	cluster.Must(t, c.Get(t.Context(), key, rule))
	if !rule.Spec.Suspend || len(rule.Finalizers) != 1 {
		t.Errorf("after an upgrade: suspend is %v, finalizers %q", rule.Spec.Suspend, rule.Finalizers)
	}
	helm("upgrade", "--set", "rules.of-the-chart=null")
	if err := c.Get(t.Context(), key, rule); err != nil || rule.DeletionTimestamp.IsZero() {
		t.Errorf("an overlay sets the rule to null, and Helm does not delete it: %v", err)
	}
}
