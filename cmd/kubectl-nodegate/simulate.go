// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/ruleset/lint"
	"github.com/nodegate/nodegate/internal/sources"
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
		Short: "Show what a rule would do to the nodes, without changing anything",
		Long: `Show what a rule, new or changed, would do to the present nodes, without changing anything.

With --nodes the plugin reads the nodes from a file, as "kubectl get nodes,csinodes -o yaml" writes
it, and sends no request to a cluster. The file may also have pods, csinodes, resourceslices and
other rules.

Exit code: 0 if at most --allow-tainted nodes would get a taint, 2 if more would, 1 after an error,
such as an invalid rule.`,
		Example: "  kubectl nodegate simulate -f rule.yaml\n" +
			"  kubectl nodegate simulate -f rules/ --nodes nodes.yaml --allow-tainted=10%",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.simulate(cmd.Context(), o) },
	}
	o.files = fileFlags(cmd)
	cmd.Flags().StringSliceVar(&o.nodes, "nodes", nil, "Files with the nodes. No request is sent to a cluster.")
	cmd.Flags().StringVar(&o.at, "at", "",
		"The time at which the rules are evaluated (RFC 3339). The default is now; with --nodes, when the last node "+
			"reported.")
	cmd.Flags().StringVar(&o.allow, "allow-tainted", "0",
		"The number or percentage of nodes that may get a taint. If more would, the exit code is 2.")
	cmd.Flags().BoolVar(&o.enforce, "enforce", false, "Simulate rules in dry-run or suspended as if they were enforced.")
	o.out = newPrinting(cmd, outputName)
	return cmd
}

// fileFlags adds -f, -k and -R.
func fileFlags(cmd *cobra.Command) genericclioptions.FileNameFlags {
	f := genericclioptions.FileNameFlags{
		Usage:     "The rules: files, directories, URLs, or - for stdin.",
		Filenames: &[]string{}, Kustomize: new(string), Recursive: new(bool),
	}
	f.AddFlags(cmd.Flags())
	return f
}

// readRules reads the rules that -f and -k name, and returns all objects beside them. With an error, it returns those
// that could be read. It prints a warning for objects that the command does not use.
func (p *plugin) readRules(flags *genericclioptions.FileNameFlags,
	uses func(input.Object) bool) ([]input.Rule, []input.Object, error) {
	options := flags.ToOptions()
	if err := options.RequireFilenameOrKustomize(); err != nil {
		return nil, nil, err
	}
	flag := "-f"
	if options.Kustomize != "" {
		flag = "-k"
	}
	objects, unread := input.Read(flag, options)
	if unread != nil && len(objects) == 0 {
		return nil, nil, unread
	}
	rules, others, err := input.Rules(flag, objects)
	if others = slices.DeleteFunc(others, uses); len(others) > 0 && err == nil {
		fmt.Fprintf(p.streams.ErrOut, "warning: the command ignores %s\n", input.Kinds(others))
	}
	return rules, objects, errors.Join(unread, err)
}

func (p *plugin) simulate(ctx context.Context, o *simulateOptions) error {
	allow := intstr.Parse(o.allow)
	if n, err := intstr.GetScaledValueFromIntOrPercent(&allow, 100, false); err != nil || n < 0 {
		return fmt.Errorf("--allow-tainted: must be a number or a percentage, such as 3 or 10%%, not %q", o.allow)
	}
	at, err := time.Parse(time.RFC3339, o.at)
	if err != nil && o.at != "" {
		return fmt.Errorf("--at: must be a time such as 2026-01-02T15:04:05Z, not %q", o.at)
	}
	read, _, err := p.readRules(&o.files, func(input.Object) bool { return false })
	if err != nil {
		return err
	}
	in := &explain.Simulation{Enforce: o.enforce, Now: p.now()}
	var faults []error
	for _, r := range read {
		found, err := input.Check(ctx, r.Content)
		if err != nil {
			return err
		}
		for _, f := range input.Cured(found) {
			faults = append(faults, fmt.Errorf("%s: rule %s: %s: %s", r.Source, r.Content.GetName(), f.Field, f.Message))
		}
		if r.Rule != nil {
			in.Rules = append(in.Rules, *r.Rule)
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	if len(o.nodes) > 0 {
		// The nodes have the completion markers of this API group.
		if err := v1alpha1.Serve(read[0].Content.GroupVersionKind().Group); err != nil {
			return err
		}
		err = offline(o.nodes, in)
	} else {
		err = p.online(ctx, in)
	}
	if err != nil {
		return err
	}
	for _, r := range read {
		if f := r.WrongGroup(); f != nil {
			return fmt.Errorf("%s: rule %s: %s: %s", r.Source, r.Content.GetName(), f.Field, f.Message)
		}
	}
	if o.at != "" {
		in.Now = at
	}
	set := input.Compile(append(slices.Clone(in.Present), in.Rules...), in.Now)
	for i := range in.Rules {
		rule := ruleset.Compile(&in.Rules[i], nil, in.Now)
		for _, w := range lint.Absent(lint.Without(lint.Warnings(rule, set, lint.Facts{Nodes: in.Nodes}),
			in.Rules[i].Annotations)) {
			fmt.Fprintf(p.streams.ErrOut, "warning: rule %s: %s\n", rule.Name, w)
		}
	}
	result := in.Run()
	if err := o.out.print(p, result); err != nil {
		return err
	}
	return outcome(result, &allow)
}

// online reads nodes, rules and evidence from the cluster.
func (p *plugin) online(ctx context.Context, in *explain.Simulation) error {
	c, err := p.cluster(ctx)
	if err != nil {
		return err
	}
	if in.Present, err = c.Rules(ctx); err != nil {
		return err
	}
	if in.Foreign, err = c.Foreign(ctx); err != nil {
		fmt.Fprintln(p.streams.ErrOut, "warning:", err)
	}
	in.Nodes, err = c.Nodes(ctx, labels.Everything())
	in.KeyPrefixes = c.RuleKeyPrefixes(ctx)
	in.Read = func(set *ruleset.Set) *sources.Snapshot { return c.Read(ctx, set) }
	in.Pods = sync.OnceValues(func() ([]*corev1.Pod, error) { return c.Pods(ctx) })
	return err
}

// offline reads nodes, rules and evidence from files. The time is when the last node reported, so that the same file
// always gives the same answer.
func offline(names []string, in *explain.Simulation) error {
	objects, err := input.Read("--nodes", resource.FilenameOptions{Filenames: names})
	if err != nil {
		return err
	}
	fleet, err := input.FleetOf("--nodes", objects)
	if err != nil {
		return err
	}
	in.Nodes, in.Present, in.Now = fleet.Nodes, fleet.Rules, time.Time{}
	for _, n := range fleet.Nodes {
		times := []metav1.Time{n.CreationTimestamp}
		for _, c := range n.Status.Conditions {
			times = append(times, c.LastHeartbeatTime, c.LastTransitionTime)
		}
		for _, t := range times {
			if t.After(in.Now) {
				in.Now = t.Time
			}
		}
	}
	in.Read = func(set *ruleset.Set) *sources.Snapshot { return sources.Of(fleet.Evidence, set) }
	if len(fleet.Pods) > 0 {
		in.Pods = func() ([]*corev1.Pod, error) { return fleet.Pods, nil }
	}
	return nil
}

// outcome returns errFound if more nodes would get a taint than allowed.
func outcome(result *report.Simulation, allow *intstr.IntOrString) error {
	limit, err := intstr.GetScaledValueFromIntOrPercent(allow, result.Nodes, false)
	if err != nil {
		return fmt.Errorf("--allow-tainted: %w", err)
	}
	tainted := sets.New[string]()
	for i := range result.Rules {
		r := &result.Rules[i]
		if len(r.Problems) > 0 {
			return fmt.Errorf("rule %s is invalid: %s", r.Rule, strings.Join(r.Problems, "; "))
		}
		for _, n := range r.Nodes {
			if n.Taint == report.TaintAdded {
				tainted.Insert(n.Node)
			}
		}
	}
	if tainted.Len() > limit {
		return errFound
	}
	return nil
}
