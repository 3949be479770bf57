// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// TestServers: an API server takes the CRD. Above all, the estimated cost of each expression is within its limit.
func TestServers(t *testing.T) {
	served, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	served = served.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(served)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&served.Spec)
	in := &apiextensions.CustomResourceDefinition{}
	err = apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(served, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Status.StoredVersions = []string{served.Spec.Versions[0].Name}
	for _, e := range validation.ValidateCustomResourceDefinition(t.Context(), in) {
		t.Error(e)
	}
}

// merge is how server-side apply merges a value of the schema.
type merge struct {
	Type, List, Map string
	Keys            []string
	Selector        bool
}

// merges adds how a value and all below it are merged, by path.
func merges(path string, s *apiextensionsv1.JSONSchemaProps, out map[string]merge) {
	_, selector := s.Properties["matchLabels"]
	out[path] = merge{s.Type, ptr.Deref(s.XListType, ""), ptr.Deref(s.XMapType, ""), s.XListMapKeys, selector}
	for name, property := range s.Properties {
		merges(path+"."+name, &property, out)
	}
	if s.Items != nil {
		merges(path+"[]", s.Items.Schema, out)
	}
}

// TestMergeSemantics: server-side apply merges rules as it merges those of the Node Readiness Controller, and never the
// labels of two selectors. Every list says how it is merged.
func TestMergeSemantics(t *testing.T) {
	raw, err := os.ReadFile("../../test/realnode/testdata/incumbent/definition.yaml")
	if err != nil {
		t.Fatal(err)
	}
	incumbent := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, incumbent); err != nil {
		t.Fatal(err)
	}
	served, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := map[string]merge{}, map[string]merge{}
	spec := func(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
		return new(d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	}
	merges("spec", spec(served), ours)
	merges("spec", spec(incumbent), theirs)
	for path, want := range theirs {
		if diff := cmp.Diff(want, ours[path]); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	for path, of := range ours {
		if of.Selector && of.Map != "atomic" || of.Type == "array" && of.List == "" {
			t.Errorf("%s is merged as %+v", path, of)
		}
	}
}
