// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
)

func newWhy(p *plugin) *cobra.Command {
	var selector string
	var out *printing
	cmd := &cobra.Command{
		Use:     "why NODE...",
		Aliases: []string{"explain"},
		Short:   "Explain what holds a node, and why",
		Long: `Explain what holds a node and why: each rule that selects it, each piece of evidence with its state
and since when, the taint and who added it, what the node waits for, and what happens next. The
rules are evaluated now, as the operator does.`,
		Example: `  kubectl nodegate why worker-3
  kubectl nodegate why worker-3 -o wide
  kubectl nodegate why -l example.com/pool=workers`,
		RunE: p.onCluster(func(ctx context.Context, c *input.Cluster, args []string) error {
			return p.why(ctx, c, args, selector, out)
		}),
		ValidArgsFunction: p.complete(nodeList),
	}
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "The nodes with these labels, instead of names.")
	out = newPrinting(cmd, outputName)
	return cmd
}

func (p *plugin) why(ctx context.Context, c *input.Cluster, args []string, selector string, out *printing) error {
	nodes, moment, err := p.read(ctx, c, args, selector)
	if err != nil {
		return err
	}
	var all []*report.NodeExplanation
	for _, node := range nodes {
		all = append(all, moment.Node(node))
	}
	if len(all) == 0 || len(all) > 1 && !out.text() {
		return out.printNodes(p, all)
	}
	for i, e := range all {
		if i > 0 {
			fmt.Fprintln(p.streams.Out)
		}
		if err := out.print(p, e); err != nil {
			return err
		}
	}
	return nil
}

// moment reads what explains the named nodes, or all.
func (p *plugin) moment(ctx context.Context, c *input.Cluster, nodes ...string) (*explain.Moment, error) {
	rules, err := c.Rules(ctx)
	if err != nil {
		return nil, err
	}
	now := p.now()
	set := input.Compile(rules, now)
	problem := frozen(ctx, c)
	if problem != nil {
		var all []*ruleset.Rule
		for _, rule := range set.All() {
			all = append(all, rule.Freeze(*problem))
		}
		set = ruleset.NewSet(all...)
	}
	known := c.Read(ctx, set, nodes...)
	all := func() explain.Evidence { return known }
	if len(nodes) > 0 {
		all = func() explain.Evidence { return c.Read(ctx, set) }
	}
	return &explain.Moment{
		Rules: known.Resolve(set), Stored: rules, Evidence: known, Operator: c.Operator(ctx), Now: now,
		Frozen: problem, All: all,
		Nodes: func() ([]*corev1.Node, error) { return c.Nodes(ctx, labels.Everything()) },
		Pods:  func(node string) ([]corev1.Pod, error) { return sources.ListPods(ctx, c, node) },
	}, nil
}

type getOptions struct {
	held     bool
	rule     string
	selector string
	out      *printing
}

func newGet(p *plugin) *cobra.Command {
	o := &getOptions{}
	cmd := &cobra.Command{
		Use:   "get nodes [NAME...]",
		Short: "List nodes, grouped by the rule and the reason that hold them",
		Long: `List nodes, grouped by the rule that concerns them most and its reason: nodes that are held, then
those that are not ready but not held, then ready ones.`,
		Example: `  kubectl nodegate get nodes --held
  kubectl nodegate get nodes --rule network -l pool=workers -o wide
  kubectl nodegate get nodes --held -o name`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{"nodes"}, cobra.ShellCompDirectiveNoFileComp
			}
			return p.complete(nodeList)(cmd, args, typed)
		},
		RunE: p.onCluster(func(ctx context.Context, c *input.Cluster, args []string) error { return p.get(ctx, c, args, o) }),
	}
	cmd.Flags().BoolVar(&o.held, "held", false, "List only nodes that a rule holds.")
	cmd.Flags().StringVar(&o.rule, "rule", "", "List only nodes that this rule concerns, and group them by it.")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "List only nodes with these labels.")
	_ = cmd.RegisterFlagCompletionFunc("rule", p.complete(ruleList)) // it fails only without such a flag
	o.out = newPrinting(cmd, outputName)
	return cmd
}

func (p *plugin) get(ctx context.Context, c *input.Cluster, args []string, o *getOptions) error {
	first, _, _ := strings.Cut(strings.Join(args, "/"), "/") // nodes, node NAME or node/NAME
	if !slices.Contains(kinds, first) {
		return errors.New("only nodes can be listed: kubectl nodegate get nodes [NAME...]")
	}
	var nodes []*corev1.Node
	var err error
	if len(args) == 1 && args[0] == first && o.selector == "" {
		nodes, err = c.Nodes(ctx, labels.Everything())
	} else {
		nodes, err = selectNodes(ctx, c, args, o.selector)
	}
	if err != nil {
		return err
	}
	moment, err := p.moment(ctx, c)
	if err != nil {
		return err
	}
	if o.rule != "" && moment.Rules.Named(o.rule) == nil {
		return noRule(o.rule)
	}
	var list []*report.NodeExplanation
	for _, node := range nodes {
		e := moment.Node(node)
		if o.selects(e) {
			list = append(list, e)
		}
	}
	return o.out.printNodes(p, list)
}

// selects reports whether a node is listed. It moves the rule that the user asks for to the front.
func (o *getOptions) selects(e *report.NodeExplanation) bool {
	if o.rule == "" {
		return !o.held || e.Held
	}
	i := slices.IndexFunc(e.Rules, func(r report.RuleExplanation) bool { return r.Rule == o.rule })
	if i < 0 || o.held && !slices.Contains(e.HeldBy, o.rule) {
		return false
	}
	e.Rules = slices.Concat(e.Rules[i:i+1], e.Rules[:i], e.Rules[i+1:])
	return true
}
