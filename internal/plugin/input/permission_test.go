// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

func TestExplainNamesTheRoleThatHelps(t *testing.T) {
	for doing, want := range map[string]string{
		"list nodes": "nodegate-plugin-viewer", "patch nodes": "nodegate-plugin-editor",
		"watch leases": "nodegate-plugin-viewer", "patch pods": "this permission", "list services": "this permission",
		"get pods/log": "this permission", "create nodes": "this permission",
	} {
		verb, what, _ := strings.Cut(doing, " ")
		resource, _, _ := strings.Cut(what, "/")
		err := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "x",
			errors.New(`User "u" cannot `+verb+` resource "`+what+`" in API group "" at the cluster scope`))
		if got := Explain(err, "trying").Error(); strings.Count(got, "nodegate-plugin-") > 1 || !strings.Contains(got, want) {
			t.Errorf("%s: %s", doing, got)
		}
	}
}

// TestRoles: the messages name the roles for what these have.
func TestRoles(t *testing.T) {
	for file, want := range map[string]sets.Set[string]{"viewer": viewed, "editor": changed} {
		raw, err := os.ReadFile("../../../config/rbac/plugin_" + file + "_role.yaml")
		if err != nil {
			t.Fatal(err)
		}
		role, got := &rbacv1.ClusterRole{}, sets.New[string]()
		if err := yaml.UnmarshalStrict(raw, role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			if file == "viewer" || slices.Contains(r.Verbs, "patch") {
				got.Insert(r.Resources...)
			}
		}
		if diff := cmp.Diff(sets.List(want), sets.List(got)); diff != "" {
			t.Errorf("%s (-messages +role):\n%s", file, diff)
		}
	}
}
