// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/plugin/files"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/plugin/simulate"
	"github.com/nodegate/nodegate/internal/plugin/text"
	"github.com/nodegate/nodegate/internal/ruleset"
)

type simulateOptions struct {
	files   genericclioptions.FileNameFlags
	nodes   []string
	at      string
	allow   string
	enforce bool
	out     *printing
}

func newSimulate(p *plugin) *cobra.Command {
	o := &simulateOptions{}
	cmd := &cobra.Command{
		Use:   "simulate -f FILE",
		Short: "Say what a rule would do to the nodes, and touch nothing",
		Long: "Say what a rule, new or changed, would do to the present nodes, node by node, and touch nothing.\n\n" +
			"With --nodes no cluster is asked: the nodes are those of a file, as \"kubectl get nodes,csinodes -o yaml\" writes it. Pods,\n" +
			"csinodes, resourceslices and other rules may be in it, too.\n\n" +
			"Exit code: 0 if no more nodes would get a taint than --allow-tainted, 2 if more would, 1 if something is wrong, such as a\n" +
			"rule that would be refused.",
		Example: "  kubectl nodegate simulate -f rule.yaml\n  kubectl nodegate simulate -f rules/ --nodes nodes.yaml --allow-tainted=10%",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.simulate(cmd.Context(), o) },
	}
	o.files = fileFlags(cmd, "The rules: files, directories, URLs, or - for standard input.")
	cmd.Flags().StringSliceVar(&o.nodes, "nodes", nil, "Files with the nodes; no cluster is asked then.")
	cmd.Flags().StringVar(&o.at, "at", "", "The moment that it is judged at (RFC 3339). By default now; with --nodes when the last of them reported.")
	cmd.Flags().StringVar(&o.allow, "allow-tainted", "0", "How many nodes, or how many percent of all, may get a taint before the exit code is 2.")
	cmd.Flags().BoolVar(&o.enforce, "enforce", false, "Say what the rules would do if they were neither in dry-run nor suspended.")
	o.out = newPrinting(cmd)
	return cmd
}

// fileFlags are -f, -k and -R.
func fileFlags(cmd *cobra.Command, usage string) genericclioptions.FileNameFlags {
	f := genericclioptions.FileNameFlags{Usage: usage, Filenames: &[]string{}, Kustomize: new(string), Recursive: new(bool)}
	f.AddFlags(cmd.Flags())
	return f
}

// readRules reads the rules that -f and -k name.
func (p *plugin) readRules(flags *genericclioptions.FileNameFlags) ([]files.Rule, []files.Object, error) {
	options := flags.ToOptions()
	if err := options.RequireFilenameOrKustomize(); err != nil {
		return nil, nil, errors.New("say which rules: -f FILE, or -k DIRECTORY")
	}
	objects, err := files.Read("-f", options)
	if err != nil {
		return nil, nil, err
	}
	rules, others, err := files.Rules("-f", objects)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range rules { // a stored one has a UID, by which rules are told apart
		if r.Rule != nil && r.Rule.UID == "" {
			r.Rule.UID = types.UID("file-" + r.Rule.Name)
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(p.streams.ErrOut, "note: only rules are looked at, not %s\n", strings.Join(others, ", "))
	}
	return rules, objects, nil
}

func (p *plugin) simulate(ctx context.Context, o *simulateOptions) error {
	if err := o.out.validate(); err != nil {
		return err
	}
	allow := intstr.Parse(o.allow)
	if n, err := intstr.GetScaledValueFromIntOrPercent(&allow, 100, false); err != nil || n < 0 {
		return fmt.Errorf("--allow-tainted: want a number or a percentage, such as 3 or 10%%, not %q", o.allow)
	}
	read, _, err := p.readRules(&o.files)
	if err != nil {
		return err
	}
	in := &simulate.Input{Enforce: o.enforce}
	var faults []error
	for _, r := range read {
		found, err := files.Check(ctx, r.Content)
		if err != nil {
			return err
		}
		for _, f := range found {
			faults = append(faults, fmt.Errorf("%s: rule %s: %s: %s", r.Source, r.Content.GetName(), f.Field, f.Message))
		}
		if r.Rule != nil {
			in.Rules = append(in.Rules, *r.Rule)
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	if err := p.facts(ctx, o, in); err != nil {
		return err
	}
	result := simulate.Rules(in)
	if err := o.out.print(p, result, func(s text.Style) string { return text.Simulation(result, s) }); err != nil {
		return err
	}
	return outcome(result, &allow)
}

// facts fills in the nodes, the rules that there are, and the evidence: of files, or of the cluster.
func (p *plugin) facts(ctx context.Context, o *simulateOptions, in *simulate.Input) error {
	if o.at != "" {
		at, err := time.Parse(time.RFC3339, o.at)
		if err != nil {
			return fmt.Errorf("--at: want a time such as 2026-01-02T15:04:05Z, not %q", o.at)
		}
		in.Now = at
	}
	if len(o.nodes) > 0 {
		return offline(o, in)
	}
	if in.Now.IsZero() {
		in.Now = p.now()
	}
	c, err := p.cluster()
	if err != nil {
		return err
	}
	if in.Present, err = c.Rules(ctx); err != nil {
		return err
	}
	if in.Nodes, err = c.Nodes(ctx, labels.Everything()); err != nil {
		return err
	}
	in.Read = func(set *ruleset.Set) simulate.Evidence { return c.Evidence(ctx, set) }
	in.Pods = func() ([]*corev1.Pod, error) { return c.Pods(ctx) }
	return nil
}

func offline(o *simulateOptions, in *simulate.Input) error {
	objects, err := files.Read("--nodes", resource.FilenameOptions{Filenames: o.nodes})
	if err != nil {
		return err
	}
	fleet, err := files.FleetOf("--nodes", objects)
	if err != nil {
		return err
	}
	in.Nodes, in.Present = fleet.Nodes, fleet.Rules
	if in.Now.IsZero() {
		in.Now = lastReport(fleet.Nodes)
	}
	in.Read = func(set *ruleset.Set) simulate.Evidence { return evidence.Of(fleet.Evidence, set) }
	if pods := fleet.Pods(); len(pods) > 0 {
		in.Pods = func() ([]*corev1.Pod, error) { return pods, nil }
	}
	return nil
}

// lastReport is when the last of some nodes reported: when they were looked at, as far as anyone can tell. So the same file
// always gives the same answer.
func lastReport(nodes []*corev1.Node) time.Time {
	var last time.Time
	take := func(t time.Time) {
		if t.After(last) {
			last = t
		}
	}
	for _, n := range nodes {
		take(n.CreationTimestamp.Time)
		for _, c := range n.Status.Conditions {
			take(c.LastHeartbeatTime.Time)
			take(c.LastTransitionTime.Time)
		}
	}
	return last
}

// outcome is the exit code of a simulation.
func outcome(result *report.Simulation, allow *intstr.IntOrString) error {
	limit, err := intstr.GetScaledValueFromIntOrPercent(allow, result.Nodes, false)
	if err != nil {
		return fmt.Errorf("--allow-tainted: %w", err)
	}
	tainted := map[string]bool{}
	for i := range result.Rules {
		r := &result.Rules[i]
		if len(r.Problems) > 0 {
			return fmt.Errorf("rule %s would be refused, or frozen: %s", r.Rule, strings.Join(r.Problems, "; "))
		}
		for _, n := range r.Nodes {
			if n.Taint == report.TaintAdded {
				tainted[n.Node] = true
			}
		}
	}
	if len(tainted) > limit {
		return errFound
	}
	return nil
}
