// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestColumns: what "kubectl get nrr" shows, and with -o wide besides.
func TestColumns(t *testing.T) {
	u := rule(t, group, "columns", changed(t, plainSpec, "dryRun: true"))
	cluster.Must(t, kube.Create(t.Context(), u))
	defer remove(t, u)
	status := `{"status":{"nodes":{"matched":9,"ready":5,"held":4,"exempt":0,"failed":0,"pending":0},
		"conditions":[{"type":"Enforcing","status":"True","reason":"No"},
			{"type":"Ready","status":"True","reason":"InForce"},
			{"type":"Served","status":"False","reason":"NotRunning"}]}}`
	status = strings.ReplaceAll(status, `"reason"`, `"lastTransitionTime":"2026-01-02T03:04:05Z","message":"","reason"`)
	cluster.Must(t, kube.Status().Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(status))))
	raw, err := rawClient(t).Get().Resource("nodereadinessrules").Name("columns").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	cluster.Must(t, err)
	table := &metav1.Table{}
	cluster.Must(t, json.Unmarshal(raw, table))
	type column struct {
		Name  string
		Wide  bool
		Value any
	}
	var got []column
	for i, d := range table.ColumnDefinitions {
		c := column{Name: d.Name, Wide: d.Priority > 0, Value: table.Rows[0].Cells[i]}
		if d.Name == "Age" {
			c.Value = nil
		}
		if d.Description == "" {
			t.Errorf("column %s has no description", d.Name)
		}
		got = append(got, c)
	}
	want := []column{
		{"Name", false, "columns"},
		{"Mode", false, "continuous"},
		{"Taint", false, "readiness.k8s.io/NetworkReady"},
		{"Effect", true, "NoSchedule"},
		{"Matched", false, 9.0},
		{"Ready", false, 5.0},
		{"Held", false, 4.0},
		{"DryRun", false, true},
		{"State", false, "InForce"},
		{"Served", false, "False"},
		{"Age", false, nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the columns (-want +got):\n%s", diff)
	}
}

func TestSelectableFields(t *testing.T) {
	for name, spec := range map[string]string{
		"select-a": plainSpec,
		"select-b": changed(t, plainSpec, "{enforcementMode: bootstrap-only, taint: {key: example.com/other}, dryRun: true}"),
	} {
		u := rule(t, group, name, spec)
		cluster.Must(t, kube.Create(t.Context(), u))
		defer remove(t, u)
	}
	for selector, want := range map[string][]string{
		"spec.enforcementMode=bootstrap-only":                               {"select-b"},
		"spec.enforcementMode=continuous,spec.taint.key!=example.com/other": {"select-a"},
		"spec.taint.key=example.com/other":                                  {"select-b"},
		"spec.taint.key=readiness.k8s.io/NetworkReady":                      {"select-a"},
		"spec.dryRun=true":                                                  {"select-b"},
		"spec.dryRun!=true":                                                 {"select-a"},
	} {
		rules := &v1alpha1.NodeReadinessRuleList{}
		if err := kube.List(t.Context(), rules,
			&client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: selector}}); err != nil {
			t.Errorf("%s: %v", selector, err)
			continue
		}
		var got []string
		for i := range rules.Items {
			got = append(got, rules.Items[i].Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", selector, diff)
		}
	}
}

// sentence begins with a capital letter and ends as a sentence, or with an address.
var sentence = regexp.MustCompile(`(?s)^[A-Z].*(\.|https?://\S+)$`)

// TestEveryFieldIsExplained: no field without a text, which names the field or is a sentence.
func TestEveryFieldIsExplained(t *testing.T) {
	d := ours(t)
	root := d.Spec.Versions[0].Schema.OpenAPIV3Schema
	fields := 0
	walk("", root, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		name := path[strings.LastIndex(path, ".")+1:]
		if path == ".metadata" || strings.HasSuffix(name, "[]") || strings.HasSuffix(name, "{}") {
			return // explained by every API server; the list or the map is
		}
		fields++
		words := strings.Fields(s.Description)
		switch {
		case len(words) < 3:
			t.Errorf("%s has no text worth its name: %q", path, s.Description)
		case strings.TrimSuffix(words[0], ":") != name && !sentence.MatchString(s.Description):
			t.Errorf("%s: the text neither begins with the field's name nor is it a sentence: %q", path, s.Description)
		case !strings.HasSuffix(s.Description, ".") && !sentence.MatchString(s.Description):
			t.Errorf("%s: the text does not end as a sentence: %q", path, s.Description)
		}
	})
	if fields < 100 {
		t.Errorf("only %d fields were looked at", fields)
	}
}

// TestEveryNumberIsBounded: Kubernetes 1.32 ignores the format int32. One rule with a larger number could not be read,
// and with it no list of rules.
func TestEveryNumberIsBounded(t *testing.T) {
	spec := ours(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	walk("spec", &spec, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if s.Format == "int32" && (s.Minimum == nil || s.Maximum == nil) {
			t.Errorf("%s has no minimum or no maximum", path)
		}
	})
}

// TestKubectl: the real kubectl finds the API and its texts.
func TestKubectl(t *testing.T) {
	for args, want := range map[string]string{
		"explain nrr":                               `NodeReadinessRule says what "ready" means for a set of nodes`,
		"explain nrr.spec.maxUnavailable":           "maxUnavailable limits how many nodes in service",
		"explain nrr.spec.conditions.maxAgeSeconds": "Kubelet reports its own conditions every 5 minutes",
		"explain nrr.spec.taint.effect":             "NoSchedule, PreferNoSchedule, or NoExecute",
		"explain nrr.spec.enforcementMode":          "ENUM: bootstrap-only continuous",
		"explain nrr.spec --recursive":              "completionAnnotation <string>",
		"explain nrr.status.nodes":                  "matched <integer> -required- matched is how many nodes",
		"get nrr":                                   "No resources found",
		"api-resources --api-group " + group:        "nodereadinessrules nrr " + group + "/v1alpha1 false NodeReadinessRule",
	} {
		// For a moment after the CRD is written, the API server describes no rules.
		cluster.Eventually(t, "kubectl "+args, func() error {
			cmd := exec.Command(filepath.Join(server.Assets(), "kubectl"),
				append(strings.Fields(args), "--kubeconfig", server.Kubeconfig(), "--cache-dir", t.TempDir())...)
			out, err := cmd.CombinedOutput()
			if got := strings.Join(strings.Fields(string(out)), " "); err != nil || !strings.Contains(got, want) {
				return fmt.Errorf("it says %s (%w), without %s", got, err, want)
			}
			return nil
		})
	}
}
