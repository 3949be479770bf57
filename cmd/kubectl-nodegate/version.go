// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/version"
	"github.com/nodegate/nodegate/internal/watch"
)

func newVersion(p *plugin) *cobra.Command {
	var clientOnly bool
	var out *printing
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the plugin, the operator and the CRD, and their differences",
		Long: `Show the version of the plugin, the image of the operator and whether the CRD of the cluster has all
fields of this version. A different version is a warning, not an error.`,
		Example: "  kubectl nodegate version\n  kubectl nodegate version --client",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var failed error
			v := &report.Versions{TypeMeta: report.Type("Versions"), Plugin: version.Version, Commit: version.Commit()}
			if !clientOnly {
				c, err := p.cluster(cmd.Context())
				if err != nil {
					return err
				}
				failed = versions(cmd.Context(), c, v)
			}
			return errors.Join(out.print(p, v), failed)
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Show only the version of the plugin, without a request to the "+
		"server.")
	out = newPrinting(cmd)
	return cmd
}

// skew tells in words whether the operator's image has another tag than the plugin's version; empty if it has the
// same, or one of both has no version.
func skew(plugin, image string) string {
	named, _, _ := strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(named[strings.LastIndex(named, "/")+1:], ":")
	if plugin == "dev" || !tagged || tag == plugin {
		return ""
	}
	return fmt.Sprintf("the operator is %s, the plugin is %s", tag, plugin)
}

// frozen returns the problem for which the operator changes nothing for any rule: another controller acts on them, or
// the CRD lacks fields. It returns nil if there is none, or if it cannot be known.
func frozen(ctx context.Context, c *input.Cluster) *ruleset.Problem {
	if other := c.OtherController(ctx); other != nil {
		return other
	}
	served := &apiextensionsv1.CustomResourceDefinition{}
	ours, err := crd.Load()
	if err != nil || c.Get(ctx, client.ObjectKey{Name: crd.Name()}, served) != nil {
		return nil
	}
	problem := watch.CompareCRD(ours, served)
	if problem == nil {
		return nil
	}
	v := &report.Versions{Plugin: version.Version}
	_ = operators(ctx, c, v) // without permission, the operator counts as one of this version
	if len(v.Operator) > 0 && len(v.Skew) > 0 {
		return nil // an operator of another version compares the CRD with its own
	}
	return problem
}

// operators adds the images of the operator.
func operators(ctx context.Context, c *input.Cluster, v *report.Versions) error {
	deployments, err := input.List[*appsv1.Deployment](ctx, c, "the operator's deployment", &appsv1.DeploymentList{},
		input.OperatorLabels)
	for _, d := range deployments {
		for _, container := range d.Spec.Template.Spec.Containers {
			v.Operator = append(v.Operator, container.Image)
			if different := skew(v.Plugin, container.Image); different != "" {
				v.Skew = append(v.Skew, different)
			}
		}
	}
	return err
}

const noDeployment = "no deployment of the operator found"

// versions adds the versions in the cluster. It returns an error if it could read none.
func versions(ctx context.Context, c *input.Cluster, v *report.Versions) error {
	err := operators(ctx, c, v)
	if err != nil {
		v.Unread = append(v.Unread, err.Error())
	} else if len(v.Operator) == 0 {
		v.Skew = append(v.Skew, noDeployment)
	}
	served := &apiextensionsv1.CustomResourceDefinition{}
	unread := input.Explain(c.Get(ctx, client.ObjectKey{Name: crd.Name()}, served), "reading the CRD")
	switch {
	case apierrors.IsNotFound(unread):
		v.CRD, v.Skew = "Missing", append(v.Skew, "the CRD NodeReadinessRule is not installed")
		return nil
	case unread != nil && err != nil:
		v.Unread = nil // the error says it
		return unread
	case unread != nil:
		v.Unread = append(v.Unread, unread.Error())
		return nil
	}
	ours, err := crd.Load()
	if err != nil {
		return err
	}
	v.CRD = "Same"
	if problem := watch.CompareCRD(ours, served); problem != nil {
		v.CRD, v.Skew = "Different", append(v.Skew, "the CRD of the cluster is not the plugin's: "+problem.Message)
	}
	return nil
}
