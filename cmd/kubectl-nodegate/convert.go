// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/convert"
)

type convertOptions struct {
	files     []string
	to        string
	live, yes bool
}

func newConvert(p *plugin) *cobra.Command {
	o := &convertOptions{}
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Rewrite files of rules for this version, or for another API group",
		Long: `Rewrite files of rules for this version, without a cluster: rename the fields that have another name
now, and with --to move the rules to another API group, with their finalizer. Only these words change:
comments and the form of the file stay. The result goes to stdout. Notes about what to look at go to
stderr.

With --live, the command moves the rules of the cluster instead, with all that the operator knows
about nodes, while the operator is stopped. It prints its steps first. For what to do before and after,
see https://github.com/nodegate/nodegate/blob/main/docs/change-api-group.md.

A file may have other objects, which stay as they are, and may be values of the chart, with rules in
rules or nodeReadinessRules. Render templates first.`,
		Example: "  kubectl nodegate convert -f rule.yaml > new.yaml\n" +
			"  kubectl nodegate convert -f rules.yaml --to=" + v1alpha1.GroupNames()[1] + " > new.yaml\n" +
			"  kubectl nodegate convert --live --to=" + v1alpha1.GroupNames()[1],
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !o.live:
				return p.convert(o)
			case len(o.files) > 0:
				return errors.New("--live and --filename cannot be combined")
			}
			return p.convertLive(cmd.Context(), o.to, o.yes)
		},
	}
	cmd.Flags().StringSliceVarP(&o.files, "filename", "f", nil, "Files with rules, or - for stdin.")
	cmd.Flags().StringVar(&o.to, "to", "", "The API group to move the rules to: "+
		strings.Join(v1alpha1.GroupNames(), " or ")+". By default, they stay in theirs.")
	cmd.Flags().BoolVar(&o.live, "live", false, "Move the rules of the cluster to the API group of --to.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation. Only with --live.")
	_ = cmd.RegisterFlagCompletionFunc("to", // it fails only without such a flag
		cobra.FixedCompletions(v1alpha1.GroupNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (p *plugin) convert(o *convertOptions) error {
	switch {
	case len(o.files) == 0:
		return errors.New("-f is required: a file with rules, or - for stdin")
	case o.to != "" && !slices.Contains(v1alpha1.GroupNames(), o.to):
		return fmt.Errorf("--to: must be %s, not %q", strings.Join(v1alpha1.GroupNames(), " or "), o.to)
	}
	var out bytes.Buffer // nothing is printed if a file cannot be converted
	for _, name := range o.files {
		text, err := p.readText(name)
		if err != nil {
			return fmt.Errorf("-f: %w", err)
		}
		converted, err := convert.Text(text, o.to)
		if err != nil {
			return fmt.Errorf("-f: %s: %w", name, err)
		}
		if converted.Rules == 0 {
			return fmt.Errorf("-f: %s: no NodeReadinessRule found", name)
		}
		if converted.Stream && len(o.files) > 1 {
			return fmt.Errorf("-f: %s: JSON documents without separators: convert this file alone", name)
		}
		for _, note := range converted.Notes {
			fmt.Fprintf(p.streams.ErrOut, "%s: %s\n", name, note)
		}
		switch {
		case out.Len() == 0:
		case bytes.HasSuffix(out.Bytes(), []byte("\n")):
			out.WriteString("---\n")
		default:
			out.WriteString("\n---\n")
		}
		out.Write(converted.Text)
	}
	_, err := out.WriteTo(p.streams.Out)
	return err
}

// readText reads a file, or stdin.
func (p *plugin) readText(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(p.streams.In)
	}
	return os.ReadFile(name)
}
