// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"

	"github.com/nodegate/nodegate/config/crd"
)

// establishLimit is how long the API server may take to serve a CRD.
const establishLimit = time.Minute

// newApplyCRDCommand returns the command that the chart runs before an upgrade, because Helm never upgrades a CRD.
func newApplyCRDCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "apply-crd",
		Short: "Create the CRD of the rules, or update it to this version",
		Long: `Create the CRD NodeReadinessRule, or replace its spec with that of this version, and wait until the API server
serves it. Unlike "kubectl apply", the command leaves no field of another version in the CRD. It does not change stored
rules.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := kubeconfig()
			if err != nil {
				return err
			}
			client, err := apiextensions.NewForConfig(cfg)
			if err != nil {
				return fmt.Errorf("connecting to the cluster: %w", err)
			}
			return applyCRD(cmd.Context(), client.CustomResourceDefinitions(), cmd.OutOrStdout())
		},
	}
}

func applyCRD(ctx context.Context, crds apiextensions.CustomResourceDefinitionInterface, out io.Writer) error {
	wanted, err := crd.Load()
	if err != nil {
		return err
	}
	did := ""
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			did = "created"
			_, err = crds.Create(ctx, wanted, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		spec := wanted.Spec.DeepCopy()
		// What the API server fills in.
		spec.Conversion, spec.Names.Singular, spec.Names.ListKind = found.Spec.Conversion, found.Spec.Names.Singular,
			found.Spec.Names.ListKind
		if equality.Semantic.DeepEqual(*spec, found.Spec) {
			did = "unchanged"
			return nil
		}
		did = "replaced"
		found.Spec = *spec
		_, err = crds.Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the CRD: %w", err)
	}
	if err := waitUntilServed(ctx, crds); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "customresourcedefinition.apiextensions.k8s.io/%s %s\n", crd.Name, did)
	return err
}

// waitUntilServed waits until the API server serves the CRD.
func waitUntilServed(ctx context.Context, crds apiextensions.CustomResourceDefinitionInterface) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, establishLimit, true,
		func(ctx context.Context) (bool, error) {
			found, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
			return err == nil && apihelpers.IsCRDConditionTrue(found, apiextensionsv1.Established), nil
		})
	if err != nil {
		return fmt.Errorf("the CRD is written, but the API server does not serve it yet: %w", err)
	}
	return nil
}
