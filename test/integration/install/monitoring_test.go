// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestMonitoring: the chart brings the same ServiceMonitor, alerts and dashboard as kustomize. There is no API server that
// knows the first two kinds.
func TestMonitoring(t *testing.T) {
	wanted, err := kustomize(t.Context(), "config/monitoring")
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := helm(t.Context(), "--show-only=templates/monitoring.yaml", "--set=monitoring.serviceMonitor.enabled=true",
		"--set=monitoring.prometheusRule.enabled=true", "--set=monitoring.dashboard.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, o := range rendered {
		found[o.GetKind()] = o.Object["spec"]
		if o.GetKind() == "ConfigMap" {
			found["ConfigMap"] = o.Object["data"]
		}
	}
	for _, o := range wanted {
		want := o.Object["spec"]
		if o.GetKind() == "ServiceMonitor" { // the chart selects by the release, too
			labels, _, err := unstructured.NestedMap(o.Object, "spec", "selector", "matchLabels")
			if err != nil {
				t.Fatal(err)
			}
			labels["app.kubernetes.io/instance"] = "nodegate"
			if err := unstructured.SetNestedMap(o.Object, labels, "spec", "selector", "matchLabels"); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, found[o.GetKind()]); diff != "" {
			t.Errorf("%s (-kustomize +chart):\n%s", o.GetKind(), diff)
		}
	}
	dashboard, err := os.ReadFile(filepath.Join(root, "config", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"nodegate.json": strings.TrimSpace(string(dashboard))}
	if diff := cmp.Diff(want, found["ConfigMap"]); diff != "" {
		t.Errorf("the dashboard (-file +chart):\n%s", diff)
	}
	if _, err := helm(t.Context(), "--set=monitoring.serviceMonitor.enabled=true", "--set=metrics.enabled=false"); err == nil ||
		!strings.Contains(err.Error(), "metrics.enabled=false") {
		t.Errorf("a ServiceMonitor without metrics is accepted: %v", err)
	}
}
