// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestBundle holds the bundle for the Operator Lifecycle Manager against the manifests that it is made of: OLM runs the
// same Deployment, with the same permissions, and creates all that the bundle leaves out.
func TestBundle(t *testing.T) {
	for config, group := range map[string]string{"config/olm": v1alpha1.GroupNames()[0],
		"config/own-group-olm": v1alpha1.GroupNames()[1]} {
		t.Run(group, func(t *testing.T) { bundleOf(t, config, group) })
	}
}

func bundleOf(t *testing.T, config, group string) {
	want, err := kustomize(t.Context(), config)
	cluster.Must(t, err)
	dir := t.TempDir()
	_, err = execute(t.Context(), "bash", "-c", "go tool -modfile=hack/tools/go.mod kustomize build "+config+
		` | hack/bundle.sh v1.2.3 "$0"`, dir)
	cluster.Must(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "manifests", "*.yaml"))
	cluster.Must(t, err)
	var bundle []object
	for _, file := range files {
		text, err := os.ReadFile(file)
		cluster.Must(t, err)
		objects, err := cluster.ParseObjects(text)
		cluster.Must(t, err)
		bundle = append(bundle, objects...)
	}
	csv := bundle[slices.IndexFunc(bundle, func(o object) bool { return o.GetKind() == "ClusterServiceVersion" })]
	install := func(field string, of int) any {
		parts, _, _ := unstructured.NestedSlice(csv.Object, "spec", "install", "spec", field)
		if len(parts) <= of {
			t.Fatalf("the ClusterServiceVersion has %d %s", len(parts), field)
		}
		return parts[of]
	}
	permissions := func(rules any) any {
		return map[string]any{"serviceAccountName": "nodegate-manager", "rules": rules}
	}
	for _, o := range want {
		var got, expected any
		switch kind, name := o.GetKind(), o.GetName(); {
		case kind == "Namespace", kind == "ServiceAccount", kind == "RoleBinding", kind == "ClusterRoleBinding":
			continue
		case kind == "Deployment":
			labels, _, _ := unstructured.NestedMap(o.Object, "metadata", "labels")
			got, expected = install("deployments", 0), map[string]any{"name": name, "label": labels, "spec": o.Object["spec"]}
		case kind == "Role":
			got, expected = install("permissions", 0), permissions(o.Object["rules"])
		case kind == "ClusterRole" && name == "nodegate-manager-role":
			got, expected = install("clusterPermissions", 0), permissions(o.Object["rules"])
		default:
			o.SetNamespace("")
			expected = o.Object
			for _, b := range bundle {
				if b.GetKind() == kind && b.GetName() == name {
					got = b.Object
				}
			}
		}
		if diff := gocmp.Diff(expected, got); diff != "" {
			t.Errorf("%s %s: -manifests +bundle\n%s", o.GetKind(), o.GetName(), diff)
		}
	}
	if version, _, _ := unstructured.NestedString(csv.Object, "spec", "version"); version != "1.2.3" {
		t.Errorf("the version is %q", version)
	}
	var names, described []string
	owned, _, _ := unstructured.NestedSlice(csv.Object, "spec", "customresourcedefinitions", "owned")
	for _, one := range owned {
		crd, _ := one.(map[string]any)
		names = append(names, fmt.Sprint(crd["name"]))
		described = append(described, fmt.Sprint(crd["displayName"]))
	}
	if diff := gocmp.Diff([]string{"admissionrules.nodegate.io", "nodereadinessrules." + group}, names); diff != "" {
		t.Errorf("the CRDs of the ClusterServiceVersion: %s", diff)
	}
	if diff := gocmp.Diff([]string{"Rules for admission", "Node readiness rule"}, described); diff != "" {
		t.Errorf("their names in the catalog: %s", diff)
	}
	var samples []unstructured.Unstructured
	cluster.Must(t, json.Unmarshal([]byte(csv.GetAnnotations()["alm-examples"]), &samples))
	if len(samples) == 0 {
		t.Error("the ClusterServiceVersion has no examples")
	}
	for i := range samples {
		if version := samples[i].GetAPIVersion(); version != group+"/v1alpha1" {
			t.Errorf("the example %s is of %s", samples[i].GetName(), version)
		}
	}
}
