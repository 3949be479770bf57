// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestCommands runs the commands beside the operator on one API server, one after the other.
func TestCommands(t *testing.T) {
	server := cluster.ForTest(t, cluster.Options{CRD: true})
	client, err := apiextensions.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	crds := client.CustomResourceDefinitions()
	t.Run("delete-rules", func(t *testing.T) { deletes(t, server, crds) }) // in the end also the CRD
	t.Run("apply-crd", func(t *testing.T) { applies(t, crds) })
}

// deleteDefinition deletes the CRD, and waits until it is gone.
func deleteDefinition(t *testing.T, crds apiextensions.CustomResourceDefinitionInterface) {
	t.Helper()
	if err := crds.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			_, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

func applies(t *testing.T, crds apiextensions.CustomResourceDefinitionInterface) {
	apply := func(want string) {
		t.Helper()
		out := &bytes.Buffer{}
		if err := applyCRD(t.Context(), crds, out); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(strings.TrimSpace(out.String()), want) {
			t.Errorf("says %q, want %q", out, want)
		}
	}
	found := func() *apiextensionsv1.CustomResourceDefinition {
		t.Helper()
		definition, err := crds.Get(t.Context(), crd.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return definition
	}

	apply("created")
	ours := found()

	another := ours.DeepCopy()
	schema := another.Spec.Versions[0].Schema.OpenAPIV3Schema
	schema.XValidations = append(schema.XValidations, apiextensionsv1.ValidationRule{Rule: "!has(self.spec.suspend)",
		Message: "not yet"})
	spec := schema.Properties["spec"]
	delete(spec.Properties, "probes")
	schema.Properties["spec"] = spec
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the API server writes its status meanwhile
		another.ResourceVersion = found().ResourceVersion
		_, err := crds.Update(t.Context(), another, metav1.UpdateOptions{FieldManager: "helm"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	apply("replaced")
	now := found().Spec.Versions[0].Schema.OpenAPIV3Schema
	if len(now.XValidations) != len(ours.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations) {
		t.Errorf("a check of the other version is left: %v", now.XValidations)
	}
	if _, ok := now.Properties["spec"].Properties["probes"]; !ok {
		t.Error("a field of this version is missing")
	}
	apply("unchanged")
}
