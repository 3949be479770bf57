// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/apigroup"
	"github.com/nodegate/nodegate/internal/serverclock"
)

// establishLimit is how long the API server may take to serve a CRD.
const establishLimit = time.Minute

// newApplyCRDCommand returns the command that the chart runs before an upgrade, because Helm never upgrades a CRD.
func newApplyCRDCommand() *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use:   "apply-crd",
		Short: "Create the CRDs, or update them to this version",
		Long: `Create the CRDs NodeReadinessRule and AdmissionRules, or replace their specs with those of this version, and
wait until the API server serves them. Unlike "kubectl apply", the command leaves no field of another version in a CRD.
It does not change stored rules. It also writes the rules for admission, by the status of the rules, so that the
admission policy of this version has them before the operator is upgraded.

In the default API group the CRD may be another controller's. If Nodegate was not installed before, the command fails
while a Node Readiness Controller renews its lease, or if an add-on manager manages the CRD.`,
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
			server := &serverclock.Clock{Own: clock.RealClock{}}
			cfg.Wrap(server.Wrap)
			scheme := runtime.NewScheme()
			if err := errors.Join(v1alpha1.AddToScheme(scheme), admissionv1alpha1.AddToScheme(scheme),
				coordinationv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
				return err
			}
			c, err := ctrlclient.New(cfg, ctrlclient.Options{Scheme: scheme})
			if err != nil {
				return fmt.Errorf("connecting to the cluster: %w", err)
			}
			if check {
				_, err := apigroup.Check(cmd.Context(), c)
				return err
			}
			if err := apigroup.CheckCRD(cmd.Context(), c, server.Now); err != nil {
				return err
			}
			for _, load := range []func() (*apiextensionsv1.CustomResourceDefinition, error){crd.Load, crd.LoadAdmissionRules} {
				wanted, err := load()
				if err != nil {
					return err
				}
				if err := applyCRD(cmd.Context(), client.CustomResourceDefinitions(), wanted, cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return seedAdmissionRules(cmd.Context(), c, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&check, "check-group", false, "Change nothing, and fail if Nodegate serves another API group "+
		"in this cluster. The chart runs this before a rollback.")
	return cmd
}

func applyCRD(ctx context.Context, crds apiextensions.CustomResourceDefinitionInterface,
	wanted *apiextensionsv1.CustomResourceDefinition, out io.Writer) error {
	did := ""
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found, err := crds.Get(ctx, wanted.Name, metav1.GetOptions{})
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
	if err := waitUntilServed(ctx, crds, wanted.Name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "customresourcedefinition.apiextensions.k8s.io/%s %s\n", wanted.Name, did)
	return err
}

// waitUntilServed waits until the API server serves the CRD.
func waitUntilServed(ctx context.Context, crds apiextensions.CustomResourceDefinitionInterface, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, establishLimit, true,
		func(ctx context.Context) (bool, error) {
			found, err := crds.Get(ctx, name, metav1.GetOptions{})
			return err == nil && apihelpers.IsCRDConditionTrue(found, apiextensionsv1.Established), nil
		})
	if err != nil {
		return fmt.Errorf("the CRD is written, but the API server does not serve it yet: %w", err)
	}
	return nil
}
