// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// oldChart makes rules of values, as the chart of the Node Readiness Controller does.
var oldChart = map[string]string{
	"Chart.yaml": "{apiVersion: v2, name: nrr, version: 0.5.0}",
	"templates/rules.yaml": `{{- range .Values.nodeReadinessRules }}
---
apiVersion: readiness.node.x-k8s.io/v1alpha1
kind: NodeReadinessRule
metadata: {name: {{ .name }}}
spec: {{- omit . "name" | toYaml | nindent 2 }}
{{- end }}
`,
}

const oldValues = `
nodeReadinessRules:
- name: taken-over
  nodeSelector: {matchLabels: {example.com/pool: taken-over}}
  conditions: [{type: example.com/Ready, requiredStatus: "True"}]
  taint: {key: readiness.k8s.io/TakenOver, value: pending, effect: NoSchedule}
  enforcementMode: continuous
`

// TestChartTakeover goes by the page about the Node Readiness Controller: a release of its chart is let go, and its
// rules are taken over. While it runs, the chart is not installed.
func TestChartTakeover(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	for name, text := range oldChart {
		path := filepath.Join(dir, name)
		cluster.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		cluster.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	values := write(t, "values.yaml", []byte(oldValues))
	helm := func(args ...string) error {
		_, err := tool(ctx, "helm", append(args, "--kubeconfig", control.Kubeconfig())...)
		return err
	}
	cluster.Must(t, helm("install", "nrr", dir, "-n", "nrr-system", "--create-namespace", "-f", values))
	rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: "taken-over"}}
	t.Cleanup(func() { _ = kube.Delete(context.Background(), rule) })
	cluster.Must(t, kube.Get(ctx, client.ObjectKeyFromObject(rule), rule))
	before := rule.UID

	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "nrr-system", Name: "ba65f13e.readiness.node.x-k8s.io"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("nrr-0"), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: new(metav1.NowMicro())},
	}
	cluster.Must(t, kube.Create(ctx, lease))
	t.Cleanup(func() { _ = kube.Delete(context.Background(), lease) })
	install := []string{"install", "taker", "charts/nodegate", "-n", "taker", "--create-namespace", "-f", values,
		"--take-ownership", "--set=replicas=0,recordGuard.enabled=false"}
	if err := helm(install...); err == nil ||
		!strings.Contains(err.Error(), "nrr-0 renews the lease nrr-system/ba65f13e.readiness.node.x-k8s.io") {
		t.Fatalf("beside a running controller: %v", err)
	}
	if err := kube.Get(ctx, client.ObjectKey{Name: "taker"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("the install that failed has created the namespace: %v", err)
	}
	cluster.Must(t, kube.Delete(ctx, lease))

	cluster.Must(t, kube.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("nrr-system"),
		client.MatchingLabels{"owner": "helm", "name": "nrr"}))
	if err := helm("status", "nrr", "-n", "nrr-system"); err == nil {
		t.Error("Helm has not forgotten the old release")
	}
	cluster.Must(t, helm(install...))
	cluster.Must(t, kube.Get(ctx, client.ObjectKeyFromObject(rule), rule))
	if rule.UID != before || rule.Annotations["meta.helm.sh/release-name"] != "taker" || !rule.DeletionTimestamp.IsZero() {
		t.Errorf("the rule is not the same one, of the new release: %+v", rule.ObjectMeta)
	}
	cluster.Must(t, helm("uninstall", "taker", "-n", "taker", "--no-hooks"))
}
