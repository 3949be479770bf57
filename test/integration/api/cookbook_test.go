// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestCookbook applies each rule of the cookbook. All begin in dry-run, and would release what they hold in the end.
func TestCookbook(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(cluster.Root(), "docs", "cookbook.md"))
	cluster.Must(t, err)
	blocks := regexp.MustCompile("(?ms)^```yaml\n(apiVersion: readiness.*?)^```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 12 {
		t.Fatalf("only %d rules", len(blocks))
	}
	for _, block := range blocks {
		rule := &unstructured.Unstructured{}
		cluster.Must(t, rule.UnmarshalJSON(asJSON(t, block[1])))
		if err := kube.Create(t.Context(), rule, client.DryRunAll); err != nil {
			t.Errorf("%v\n%s", err, block[1])
			continue
		}
		action, _, _ := unstructured.NestedString(rule.Object, "spec", "timeout", "action")
		existing, _, _ := unstructured.NestedString(rule.Object, "spec", "existingNodes")
		dryRun, _, _ := unstructured.NestedBool(rule.Object, "spec", "dryRun")
		if !dryRun || existing != string(v1alpha1.ExistingNodesNone) || action != string(v1alpha1.TimeoutActionRelease) {
			t.Errorf("a rule of the cookbook must begin carefully:\n%s", block[1])
		}
	}
}
