// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/suggest"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
)

func newSuggest(p *plugin) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Print rules for the network, storage and device components of the cluster",
		Long: `Print rules for the network, storage and device components that the plugin recognizes in the cluster.

The rules start in dry-run, and concern only new nodes. A rule that might never release a new node is
printed as a comment, with what to change first. Notes about what was left out go to stderr.`,
		Example: "  kubectl nodegate suggest > rules.yaml\n  kubectl nodegate suggest | kubectl apply -f -",
		Args:    cobra.NoArgs,
		RunE: p.onCluster(func(ctx context.Context, c *input.Cluster, _ []string) error {
			if output != "yaml" && output != "json" {
				return fmt.Errorf("-o: must be yaml or json, not %q", output)
			}
			return p.suggest(ctx, c, output)
		}),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "yaml", "Output format: yaml, with comments, or json.")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions( // it fails only without such a flag
		[]string{"yaml", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (p *plugin) suggest(ctx context.Context, c *input.Cluster, output string) error {
	in := &suggest.Cluster{Now: p.now(), KeyPrefixes: c.RuleKeyPrefixes(ctx),
		Read: func(set *ruleset.Set) *sources.Snapshot { return c.Read(ctx, set) }}
	var err error
	if in.Nodes, err = c.Nodes(ctx, labels.Everything()); err != nil {
		return err
	}
	if in.Rules, err = c.Rules(ctx); meta.IsNoMatchError(err) {
		fmt.Fprintln(p.streams.ErrOut, "note: the cluster does not have the CRD NodeReadinessRule: install Nodegate before "+
			"you apply the rules")
	} else if err != nil {
		return err
	}
	note := func(err error, what string) {
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) { // an older Kubernetes may lack a kind
			fmt.Fprintf(p.streams.ErrOut, "note: %s left out: %v\n", what, err)
		}
	}
	var unknown error // without DaemonSets, nothing else tells what provides the evidence
	in.DaemonSets, unknown = input.List[*appsv1.DaemonSet](ctx, c, "daemonsets", &appsv1.DaemonSetList{})
	note(unknown, "all components are")
	registered, err := input.List[*storagev1.CSINode](ctx, c, "csinodes", &storagev1.CSINodeList{})
	note(err, "storage is")
	for _, n := range registered {
		if in.Drivers == nil {
			in.Drivers = map[string][]string{}
		}
		for _, d := range n.Spec.Drivers {
			in.Drivers[n.Name] = append(in.Drivers[n.Name], d.Name)
		}
	}
	in.Slices, err = input.List[*resourcev1.ResourceSlice](ctx, c, "resourceslices", &resourcev1.ResourceSliceList{})
	note(err, "devices of DRA drivers are")

	found := &suggest.Suggestions{}
	if unknown == nil {
		found = suggest.For(in)
	}
	write := found.YAML
	if output == "json" {
		write = found.JSON
	}
	text, err := write()
	if err != nil {
		return err
	}
	fmt.Fprint(p.streams.Out, text)
	for _, line := range append(found.Notes, found.Summary()...) {
		fmt.Fprintln(p.streams.ErrOut, "note:", line)
	}
	return nil
}
