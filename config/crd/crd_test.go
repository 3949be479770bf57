// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
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
