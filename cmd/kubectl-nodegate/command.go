// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/version"
)

// plugin is what all commands share.
type plugin struct {
	streams genericiooptions.IOStreams
	config  *genericclioptions.ConfigFlags
	group   string // of --api-group
	now     func() time.Time
	getenv  func(string) string
	asks    func() bool // whether stdin is a terminal
}

func newCommand(p *plugin) *cobra.Command {
	p.config = genericclioptions.NewConfigFlags(true)
	p.config.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.UserAgent = "kubectl-nodegate/" + version.Version
		c.QPS, c.Burst = 50, 300 // as kubectl
		c.WarningHandler = rest.NewWarningWriter(p.streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
		return c
	}
	cmd := &cobra.Command{
		Use:   "kubectl-nodegate",
		Short: "Show what holds nodes and why, and hold or release them",
		Long: `Show what holds nodes and why, what a rule would do, and the state of all rules; hold and release
nodes; pause rules.

The commands are documented at https://github.com/nodegate/nodegate/blob/main/docs/kubectl-plugin.md`,
		Example: `  kubectl nodegate why worker-3
  kubectl nodegate get nodes --held
  kubectl nodegate status`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl nodegate"},
		Args:          unknown,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetIn(p.streams.In)
	cmd.SetOut(p.streams.Out)
	cmd.SetErr(p.streams.ErrOut)
	p.config.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&p.group, "api-group", "", "API group of the rules: "+
		strings.Join(v1alpha1.GroupNames(), " or ")+". The default is the one that Nodegate serves in the cluster.")
	verbosity := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(verbosity)
	cmd.PersistentFlags().AddGoFlag(verbosity.Lookup("v"))
	cmd.PersistentFlags().Lookup("v").Usage = "Log level: 6 prints each request to stderr, 8 also what is sent."
	cmd.PersistentFlags().Lookup("namespace").Usage = "Has no effect, as in kubectl for nodes: they and rules have no " +
		"namespace."
	_ = cmd.RegisterFlagCompletionFunc("namespace", p.complete(namespaceList)) // it fails only without such a flag
	for name, of := range map[string]func(*clientcmdapi.Config) []string{
		"context": func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) },
		"cluster": func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) },
		"user":    func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) },
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, p.configured(of)) // it fails only without such a flag
	}
	add := func(group string, commands ...*cobra.Command) {
		cmd.AddGroup(&cobra.Group{ID: group, Title: group + ":"})
		for _, c := range commands {
			c.GroupID = group
		}
		cmd.AddCommand(commands...)
	}
	add("Troubleshooting Commands", newWhy(p), newTimeline(p), newGet(p), newStatus(p), newDashboard(p),
		newSupportBundle(p))
	add("Rule Authoring Commands", newSuggest(p), newSimulate(p), newLint(p), newConvert(p))
	add("Node and Rule Management Commands", newRelease(p), newHold(p), newMaintenance(p), newPause(p), newResume(p),
		newCleanup(p))
	const other = "Other Commands"
	add(other, newOptions(), newVersion(p))
	cmd.SetHelpCommandGroupID(other)
	cmd.SetCompletionCommandGroupID(other)
	cmd.SetUsageTemplate(strings.NewReplacer("Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}",
		`Use "kubectl nodegate options" for the flags that all commands have.`).Replace(cmd.UsageTemplate()))
	return cmd
}

func newOptions() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that all commands have",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), cmd.Root().PersistentFlags().FlagUsages())
		},
	}
}

// unknown is the error for a command that does not exist. It names those that are spelled alike.
func unknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := "see kubectl nodegate --help"
	if alike := cmd.SuggestionsFor(args[0]); len(alike) > 0 {
		hint = "did you mean " + strings.Join(alike, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q: %s", args[0], hint)
}

// configured completes names of the kubeconfig.
func (p *plugin) configured(names func(*clientcmdapi.Config) []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := p.config.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names(&config), cobra.ShellCompDirectiveNoFileComp
	}
}

// cluster returns the cluster that the flags name. From then on, times are by the API server's clock: that of the
// user's machine may be wrong.
func (p *plugin) cluster(ctx context.Context) (*input.Cluster, error) {
	config, err := p.config.ToRESTConfig()
	if err != nil {
		return nil, input.Explain(err, "reading the kubeconfig")
	}
	c, err := input.New(ctx, config, p.group)
	if err == nil {
		p.now = c.Now
	}
	return c, err
}

// onCluster runs a command with the cluster that the flags name.
func (p *plugin) onCluster(run func(context.Context, *input.Cluster, []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := p.cluster(cmd.Context())
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}

// printing is how a report is printed.
type printing struct{ flags *genericclioptions.PrintFlags }

const (
	outputWide = "wide"
	outputName = "name"
)

// newPrinting adds the flags for the output: a text for people by default, or objects.
func newPrinting(cmd *cobra.Command, more ...string) *printing {
	flags := genericclioptions.NewPrintFlags("")
	flags.NamePrintFlags = nil // a report has no name
	flags.AddFlags(cmd)
	more = append(more, outputWide)
	cmd.Flag("output").Usage = fmt.Sprintf("Output format. One of: (%s). The default is a text for people; wide adds "+
		"details.", strings.Join(append(flags.AllowedFormats(), more...), ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions( // it fails only without such a flag
		append([]string{"json", "yaml"}, more...), cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error { // before a request to the server
		if (&printing{flags}).text() || slices.Contains(more, *flags.OutputFormat) {
			return nil
		}
		if _, err := flags.ToPrinter(); err != nil {
			return fmt.Errorf("%w,%s", err, strings.Join(more, ","))
		}
		return nil
	}
	return &printing{flags: flags}
}

// text reports whether a text for people is printed.
func (o *printing) text() bool {
	format := *o.flags.OutputFormat
	return format == outputWide || format == "" && *o.flags.TemplatePrinterFlags.TemplateArgument == ""
}

// style returns the style of texts on stdout.
func (o *printing) style(p *plugin) report.Style {
	style := report.StyleOf(p.streams.Out, p.getenv)
	style.Now, style.Wide = p.now(), *o.flags.OutputFormat == outputWide
	return style
}

// print prints a report as text or as an object.
func (o *printing) print(p *plugin, r report.Report) error {
	if o.text() {
		fmt.Fprint(p.streams.Out, r.Text(o.style(p)))
		return nil
	}
	if named, ok := r.(report.Named); ok && *o.flags.OutputFormat == outputName {
		for _, name := range named.Names() {
			fmt.Fprintln(p.streams.Out, name)
		}
		return nil
	}
	printer, err := o.flags.ToPrinter()
	if err != nil {
		return err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: object}, p.streams.Out)
}

// printNodes prints a table of nodes, or a List.
func (o *printing) printNodes(p *plugin, nodes []*report.NodeExplanation) error {
	if len(nodes) == 0 && o.text() {
		fmt.Fprintln(p.streams.ErrOut, "No nodes found.")
	}
	return o.print(p, report.NewNodes(nodes))
}

// selectNodes returns the nodes of a command line, named as NAME, node NAME or node/NAME, or selected by labels.
func selectNodes(ctx context.Context, c *input.Cluster, args []string, selector string) ([]*corev1.Node, error) {
	names, err := nodeNames(args)
	switch {
	case err != nil:
		return nil, err
	case len(names) > 0 && selector != "":
		return nil, errors.New("a node name and a selector (-l) cannot be combined")
	case len(names) == 0 && selector == "":
		return nil, errors.New("a node name or a selector (-l) is required")
	case selector != "":
		parsed, err := labels.Parse(selector)
		if err != nil {
			return nil, fmt.Errorf("-l: %w", err)
		}
		return c.Nodes(ctx, parsed)
	}
	nodes := make([]*corev1.Node, len(names))
	for i, name := range names {
		if nodes[i], err = c.Node(ctx, name); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// read returns the nodes of a command line, and what explains them.
func (p *plugin) read(ctx context.Context, c *input.Cluster, args []string, selector string) ([]*corev1.Node,
	*explain.Moment, error) {
	nodes, err := selectNodes(ctx, c, args, selector)
	if err != nil {
		return nil, nil, err
	}
	names, err := nodeNames(args) // none with a selector
	if err != nil {
		return nil, nil, err
	}
	moment, err := p.moment(ctx, c, names...)
	return nodes, moment, err
}

// kinds are the words for nodes that kubectl knows.
var kinds = []string{"node", "nodes", "no"}

// nodeNames returns the names in "NAME...", "node NAME..." or "node/NAME...".
func nodeNames(args []string) ([]string, error) {
	if len(args) > 0 && slices.Contains(kinds, args[0]) {
		args = args[1:]
	}
	var names []string
	for _, arg := range args {
		kind, name, slash := strings.Cut(arg, "/")
		if !slash {
			kind, name = "node", arg
		}
		if !slices.Contains(kinds, kind) || name == "" {
			return nil, fmt.Errorf("%q is not a node: use NAME or node/NAME", arg)
		}
		names = append(names, name)
	}
	return names, nil
}

// The kinds of lists whose names are completed.
func namespaceList() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("NamespaceList")
}
func nodeList() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("NodeList") }
func ruleList() schema.GroupVersionKind {
	return v1alpha1.GroupVersion().WithKind("NodeReadinessRuleList")
}

// complete completes the names of a list, and words that stand beside them: those that start with what was typed, each
// once.
func (p *plugin) complete(of func() schema.GroupVersionKind, words ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second) // a shell waits
		defer cancel()
		c, err := p.cluster(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		kind := of()
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		found, err := input.List[*metav1.PartialObjectMetadata](ctx, c, kind.Kind, list)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names := slices.Clone(words)
		for _, o := range found {
			names = append(names, o.Name)
		}
		return slices.DeleteFunc(names, func(n string) bool {
			return !strings.HasPrefix(n, toComplete) || slices.Contains(args, n)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}
