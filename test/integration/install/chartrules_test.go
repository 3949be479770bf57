// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
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
	changeGroupOfChart(t, empty, helm)
	cluster.Must(t, c.Get(t.Context(), key, rule))
	rule.Finalizers = append(rule.Finalizers, v1alpha1.Served().Finalizer)
	cluster.Must(t, c.Update(t.Context(), rule))
	helm("upgrade", "--set", "rules.of-the-chart=null")
	if err := c.Get(t.Context(), key, rule); err != nil || rule.DeletionTimestamp.IsZero() {
		t.Errorf("an overlay sets the rule to null, and Helm does not delete it: %v", err)
	}
}

// changeGroupOfChart moves the rules of the chart to the other API group, and back: Helm adopts the copies, and leaves
// what they continue.
func changeGroupOfChart(t *testing.T, c *cluster.Cluster, helm func(string, ...string)) {
	t.Helper()
	plugin, err := c.Binary(t.Context(), "kubectl-nodegate")
	cluster.Must(t, err)
	groups := v1alpha1.GroupNames()
	objects, err := kustomize(t.Context(), "config/own-group-crd")
	cluster.Must(t, err)
	cluster.Must(t, applyTo(t.Context(), c.Client, objects))
	cluster.Must(t, c.Client.Create(t.Context(), &admissionv1alpha1.AdmissionRules{
		ObjectMeta:   metav1.ObjectMeta{Name: admissionv1alpha1.Name},
		MarkerPrefix: v1alpha1.Served().MarkerPrefix}))
	for _, to := range []string{groups[1], groups[0]} {
		out, err := execute(t.Context(), plugin, "convert", "--live", "--yes", "--to", to, "--kubeconfig", c.Kubeconfig())
		cluster.Must(t, err)
		list := listOf(to)
		cluster.Must(t, c.Client.List(t.Context(), list))
		before := list.Items[0]
		helm("upgrade", "--set", "rules.of-the-chart.spec.suspend=true,apiGroup="+to)
		cluster.Must(t, c.Client.List(t.Context(), list))
		after := list.Items[0]
		if before.GetUID() != after.GetUID() || !cmp.Equal(before.GetAnnotations(), after.GetAnnotations()) {
			t.Errorf("%s\nHelm has changed %v %v to %v %v", out, before.GetUID(), before.GetAnnotations(), after.GetUID(),
				after.GetAnnotations())
		}
	}
}
