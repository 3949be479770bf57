// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/internal/plugin/cluster"
	"github.com/nodegate/nodegate/internal/plugin/text"
	"github.com/nodegate/nodegate/internal/version"
)

// plugin is what all commands share.
type plugin struct {
	streams genericiooptions.IOStreams
	config  *genericclioptions.ConfigFlags
	now     func() time.Time
	getenv  func(string) string
	// asks reports whether somebody can be asked.
	asks func() bool
}

func newCommand(p *plugin) *cobra.Command {
	p.config = genericclioptions.NewConfigFlags(true)
	p.config.Namespace = nil // rules and nodes belong to none
	p.config.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.UserAgent = "kubectl-nodegate/" + version.Version
		c.QPS, c.Burst = 50, 300 // as kubectl
		c.WarningHandler = rest.NewWarningWriter(p.streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
		return c
	}
	cmd := &cobra.Command{
		Use:   "kubectl-nodegate",
		Short: "See what holds nodes and why, and hold or release them",
		Long: "See what holds nodes and why, what a rule would do, and how all rules stand; hold and release nodes, and pause rules.\n" +
			"The documentation is docs/kubectl-plugin.md of Nodegate.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl nodegate"},
		Version:       version.Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetIn(p.streams.In)
	cmd.SetOut(p.streams.Out)
	cmd.SetErr(p.streams.ErrOut)
	p.config.AddFlags(cmd.PersistentFlags())
	cmd.AddCommand(
		newExplain(p), newStatus(p), newSimulate(p), newLint(p),
		newRelease(p), newHold(p), newClear(p), newPause(p), newResume(p), newCleanup(p),
	)
	return cmd
}

// cluster is the cluster that the flags name.
func (p *plugin) cluster() (*cluster.Cluster, error) {
	config, err := p.config.ToRESTConfig()
	if err != nil {
		return nil, cluster.Explain(err, "reading the kubeconfig")
	}
	return cluster.New(config)
}

// printing is how a report is printed.
type printing struct{ flags *genericclioptions.PrintFlags }

const wide = "wide"

// newPrinting prints reports: as objects, or as text for people.
func newPrinting(cmd *cobra.Command) *printing {
	flags := genericclioptions.NewPrintFlags("")
	flags.NamePrintFlags = nil // a report has no name
	flags.JSONYamlPrintFlags.AddFlags(cmd)
	flags.TemplatePrinterFlags.AddFlags(cmd)
	cmd.Flags().StringVarP(flags.OutputFormat, "output", "o", "", fmt.Sprintf("Output format. One of: (%s). By default a text for people; wide says more.",
		strings.Join(append(flags.AllowedFormats(), wide), ", ")))
	flags.OutputFlagSpecified = func() bool { return cmd.Flag("output").Changed }
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml", wide}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return &printing{flags: flags}
}

// text reports whether a text for people is asked for.
func (o *printing) text() bool {
	format := *o.flags.OutputFormat
	return format == wide || format == "" && *o.flags.TemplatePrinterFlags.TemplateArgument == ""
}

// print prints a report as an object, or the text that write makes.
func (o *printing) print(p *plugin, report runtime.Object, write func(text.Style) string) error {
	if !o.text() {
		printer, err := o.flags.ToPrinter()
		if err != nil {
			return fmt.Errorf("-o: %w", err)
		}
		return printer.PrintObj(report, p.streams.Out)
	}
	style := p.style()
	style.Wide = *o.flags.OutputFormat == wide
	_, err := fmt.Fprint(p.streams.Out, write(style))
	return err
}

// validate says what is wrong with -o before anything is asked of a server.
func (o *printing) validate() error {
	if o.text() {
		return nil
	}
	if _, err := o.flags.ToPrinter(); err != nil {
		return fmt.Errorf("-o: %w, wide", err)
	}
	return nil
}

func (p *plugin) style() text.Style {
	style := text.StyleOf(p.streams.Out, p.getenv)
	style.Now = p.now()
	return style
}

// nodeNames are the names in "node NAME...", "node/NAME ..." or both.
func nodeNames(args []string) ([]string, error) {
	const usage = "say which node: node NAME"
	if len(args) == 0 {
		return nil, errors.New(usage)
	}
	bare := false
	switch args[0] {
	case "node", "nodes", "no":
		bare, args = true, args[1:]
	}
	var names []string
	for _, arg := range args {
		kind, name, slash := strings.Cut(arg, "/")
		switch {
		case !slash && bare:
			names = append(names, arg)
		case slash && (kind == "node" || kind == "nodes" || kind == "no") && name != "":
			names = append(names, name)
		default:
			return nil, fmt.Errorf("%q is not understood: %s", arg, usage)
		}
	}
	return names, nil
}
