// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/text"
)

type overrideOptions struct {
	*changing
	action   nodeview.OverrideAction
	done     string // what the operator does to a node then, such as "released"
	undo     bool
	selector string
	duration span
	timeout  span
}

func newRelease(p *plugin) *cobra.Command {
	return p.overriding(nodeview.OverrideRelease, "released", &cobra.Command{
		Use:   "release NODE...",
		Short: "Remove the taints of all rules from nodes, and keep them removed",
		Long: `Remove the taints of all rules from nodes and keep them removed, regardless of the evidence, until
"kubectl nodegate release --undo" or the end of --duration. Other taints are not changed, nor are
those of rules that are frozen with the reason ForeignRule. It sets the annotation
` + v1alpha1.OverrideAnnotation + ` on the nodes.`,
		Example: `  kubectl nodegate release worker-3
  kubectl nodegate release -l example.com/pool=workers --duration 2h --yes
  kubectl nodegate release worker-3 --undo`,
	})
}

func newHold(p *plugin) *cobra.Command {
	return p.overriding(nodeview.OverrideHold, "held", &cobra.Command{
		Use:   "hold NODE...",
		Short: "Taint nodes for all rules that select them, and keep the taints",
		Long: `Taint nodes for all rules that select them, and keep the taints regardless of the evidence, until
"kubectl nodegate hold --undo" or the end of --duration. A NoExecute taint evicts the pods that do
not tolerate it, regardless of limits and PodDisruptionBudgets. It sets the annotation
` + v1alpha1.OverrideAnnotation + ` on the nodes.`,
		Example: "  kubectl nodegate hold worker-3 --duration 2h\n  kubectl nodegate hold worker-3 --undo",
	})
}

func (p *plugin) overriding(action nodeview.OverrideAction, done string, cmd *cobra.Command) *cobra.Command {
	o := &overrideOptions{action: action, done: done}
	cmd.ValidArgsFunction = p.complete(nodeList)
	cmd.RunE = p.onCluster(func(ctx context.Context, c *input.Cluster, args []string) error {
		return o.flush(p, p.override(ctx, c, args, o))
	})
	o.changing = newChanging(cmd, "override set")
	validate := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if o.undo {
			o.flags.NamePrintFlags.Operation, o.action = "override removed", nodeview.OverrideNone
		}
		return validate(cmd, args)
	}
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "The nodes with these labels, instead of names.")
	o.timeout = span(10 * time.Second)
	cmd.Flags().Var(&o.timeout, "timeout", "How long to wait until the operator has acted. 0 does not wait.")
	cmd.Flags().Var(&o.duration, "duration", "How long the override lasts, such as 30m, 1.5h or 7d. By default until "+
		"--undo.")
	cmd.Flag("duration").DefValue = ""
	cmd.Flags().BoolVar(&o.undo, "undo", false, "Remove the override, so that the rules decide again.")
	cmd.MarkFlagsMutuallyExclusive("undo", "duration")
	return cmd
}

func (p *plugin) override(ctx context.Context, c *input.Cluster, args []string, o *overrideOptions) error {
	nodes, moment, err := p.read(ctx, c, args, o.selector)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return fmt.Errorf("no node has the labels %s", o.selector)
	}
	if err := p.ask(ctx, o.changing, o.announce(moment, nodes)); err != nil {
		return err
	}
	err = p.annotate(ctx, c, o.changing, nodes, v1alpha1.OverrideAnnotation, o.value(p.now()))
	if err != nil || o.dryRun != dryRunNone || o.timeout == 0 {
		return err
	}
	return p.await(ctx, c, nodes, o)
}

// value returns the value of the annotation; nil removes it.
func (o *overrideOptions) value(now time.Time) any {
	switch {
	case o.undo:
		return nil
	case o.duration > 0:
		return string(o.action) + ";until=" + now.Add(time.Duration(o.duration)).UTC().Format(time.RFC3339)
	}
	return string(o.action)
}

// announce tells what will happen to how many nodes.
func (o *overrideOptions) announce(moment *explain.Moment, nodes []*corev1.Node) (text string) {
	which := names(nodes)
	if moment.Frozen != nil {
		defer func() { text = "warning: the operator is frozen: " + moment.Frozen.Message + "\n" + text }()
	}
	if moment.Operator != nil && !moment.Operator.Leads {
		defer func() { text += "\nwarning: no operator leads: nothing happens before one does" }()
	}
	if o.undo {
		return fmt.Sprintf("Removes the override of %s: the rules decide again.", which)
	}
	held := 0
	var without, evicting []*corev1.Node
	for _, node := range nodes {
		e := moment.Node(node)
		if isHeld(e) {
			held++
		}
		if !enforces(e, func(r *report.RuleExplanation) bool { return r.Taint != nil || r.Health != nil }) {
			without = append(without, node)
		}
		if enforces(e, evicts) {
			evicting = append(evicting, node)
		}
	}
	switch {
	case len(nodes) > 1:
		which += ", of which " + report.Plural(held, "is held now", "are held now")
	case held == 1:
		which += ", which is held now"
	default:
		which += ", which is not held now"
	}
	until := "until --undo"
	if o.duration > 0 {
		until = "for " + o.duration.String()
	}
	if o.action == nodeview.OverrideRelease {
		return fmt.Sprintf("Releases %s: the operator removes the taints of all rules and adds none %s, regardless of the "+
			"evidence. The same applies to the rules' verdicts for /health.", which, until)
	}
	text = fmt.Sprintf("Holds %s: the operator adds the taints of all matching rules and keeps them %s, "+
		"regardless of the evidence. The same applies to the rules' verdicts for /health.", which, until)
	if len(evicting) > 0 {
		text += fmt.Sprintf("\nwarning: a NoExecute taint evicts the pods of %s that do not tolerate it, regardless of "+
			"limits and PodDisruptionBudgets", names(evicting))
	}
	if len(without) > 0 {
		text += fmt.Sprintf("\nwarning: no enforced rule with a taint or health selects %s: hold has no effect there until "+
			"one does. \"kubectl cordon\" works on any node.", names(without))
	}
	return text
}

// enforces reports whether an enforced rule that selects a node is as given.
func enforces(e *report.NodeExplanation, is func(*report.RuleExplanation) bool) bool {
	return slices.ContainsFunc(e.Rules, func(r report.RuleExplanation) bool {
		return r.Mode == "Enforced" && r.State != "" && is(&r)
	})
}

// evicts reports whether the taint of a rule evicts pods that run on a node.
func evicts(r *report.RuleExplanation) bool {
	return r.Taint != nil && strings.HasSuffix(r.Taint.Taint, ":"+string(corev1.TaintEffectNoExecute))
}

// isHeld reports whether a rule keeps pods or the traffic of load balancers away from a node.
func isHeld(e *report.NodeExplanation) bool {
	return e.Held || slices.ContainsFunc(e.Rules, func(r report.RuleExplanation) bool {
		return r.Health != nil && r.Health.Verdict == v1alpha1.HealthNotReady
	})
}

// names returns the names of the first nodes, for messages.
func names(nodes []*corev1.Node) string {
	if len(nodes) == 1 {
		return "node " + nodes[0].Name
	}
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return fmt.Sprintf("%d nodes (%s)", len(nodes), text.Few(out, 5, len(out)))
}

// await waits until the operator has nothing more to do on the nodes. It prints a line for each that is released or
// held. It reads only the nodes repeatedly: reading rules and evidence so often would load the API server.
func (p *plugin) await(ctx context.Context, c *input.Cluster, nodes []*corev1.Node, o *overrideOptions) error {
	var named []string
	for _, node := range nodes {
		named = append(named, node.Name)
	}
	moment, err := p.moment(ctx, c, named...)
	if err != nil {
		return err
	}
	waiting, leads := nodes, moment.Operator == nil || moment.Operator.Leads
	// Requests use the outer context: the end of the timeout must not cut one short, whose error would hide the timeout.
	timeout := time.Duration(o.timeout)
	err = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		var still []*corev1.Node
		for _, node := range waiting {
			fresh, err := c.Node(ctx, node.Name)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return false, err
			}
			moment.Now = p.now()
			e := moment.Node(fresh)
			if slices.ContainsFunc(e.Rules, func(r report.RuleExplanation) bool {
				return r.Taint != nil && r.Taint.Change != "" || r.Health != nil && r.Health.Change != ""
			}) {
				still = append(still, fresh)
			} else if *o.flags.OutputFormat == "" && !o.undo && isHeld(e) == (o.action == nodeview.OverrideHold) {
				fmt.Fprintf(p.streams.Out, "node/%s %s\n", node.Name, o.done)
			}
		}
		waiting = still
		return len(waiting) == 0 || !leads, nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted: the annotation is written, and the operator will act")
	case wait.Interrupted(err):
		return fmt.Errorf("%s: the annotation is written, but the operator has not acted within %s: is it running? See "+
			"\"kubectl nodegate status\"", names(waiting), &o.timeout)
	case err == nil && len(waiting) > 0:
		return fmt.Errorf("%s: the annotation is written, but no operator leads: nothing happens before one does",
			names(waiting))
	}
	return err
}

type maintenanceOptions struct {
	*changing
	reason   string
	selector string
	duration span
}

func newMaintenance(p *plugin) *cobra.Command {
	o := &maintenanceOptions{}
	cmd := &cobra.Command{
		Use:   "maintenance NODE... on|off",
		Short: "Take nodes out of the load balancers, or put them back",
		Long: `Take nodes out of the load balancers, or put them back: while a node is in maintenance, /health of
its agent answers 503. Taints are not changed. It ends with "maintenance off" or at the end of
--duration. It sets the annotation ` + v1alpha1.MaintenanceAnnotation + ` on the nodes.`,
		Example: `  kubectl nodegate maintenance worker-3 on --reason 'disk swap' --duration 1.5h
  kubectl nodegate maintenance -l example.com/rack=7 off`,
		Args: cobra.MinimumNArgs(1),
		RunE: p.onCluster(func(ctx context.Context, c *input.Cluster, args []string) error {
			return o.flush(p, p.maintenance(ctx, c, o, args[:len(args)-1], args[len(args)-1]))
		}),
		ValidArgsFunction: p.complete(nodeList, "on", "off"),
	}
	o.changing = newChanging(cmd, "maintenance changed")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "The nodes with these labels, instead of names.")
	cmd.Flags().StringVar(&o.reason, "reason", "kubectl nodegate maintenance",
		"The reason, which /health and \"why\" show.")
	cmd.Flags().Var(&o.duration, "duration", "How long the maintenance lasts, such as 30m, 1.5h or 7d. By default until "+
		"\"maintenance off\".")
	cmd.Flag("duration").DefValue = ""
	return cmd
}

func (p *plugin) maintenance(ctx context.Context, c *input.Cluster, o *maintenanceOptions, args []string,
	to string) error {
	value, what, err := o.value(to, p.now())
	if err != nil {
		return err
	}
	nodes, err := selectNodes(ctx, c, args, o.selector)
	switch {
	case err != nil:
		return err
	case len(nodes) == 0:
		return fmt.Errorf("no node has the labels %s", o.selector)
	}
	what = fmt.Sprintf(what, names(nodes))
	if alone := withoutAgent(ctx, c, nodes); len(alone) > 0 {
		what += fmt.Sprintf("\nwarning: no node agent runs on %s: nothing answers /health there, so that maintenance has "+
			"no effect on load balancers", names(alone))
	}
	if err := p.ask(ctx, o.changing, what); err != nil {
		return err
	}
	return p.annotate(ctx, c, o.changing, nodes, v1alpha1.MaintenanceAnnotation, value)
}

// value returns the value of the annotation, which nil removes, and what will happen to the nodes.
func (o *maintenanceOptions) value(to string, now time.Time) (value any, what string, err error) {
	until := `until "maintenance off"`
	switch {
	case to != "on" && to != "off":
		return nil, "", fmt.Errorf("the last argument must be on or off, not %q", to)
	case to == "off" && o.duration != 0:
		return nil, "", errors.New("--duration cannot be combined with off")
	case to == "off":
		return nil, "Puts %s back into the load balancers, if the checks of /health pass.", nil
	case o.reason == "" || o.reason == "false":
		return nil, "", errors.New("--reason: must not be empty or \"false\", which mean no maintenance")
	case o.duration != 0:
		value = o.reason + ";until=" + now.Add(time.Duration(o.duration)).UTC().Format(time.RFC3339)
		until = "for " + o.duration.String()
	default:
		value = o.reason
	}
	return value, "Takes %s out of the load balancers: /health answers 503 there " + until + ".", nil
}

// withoutAgent returns the nodes on which no agent runs; none if the user may not list pods.
func withoutAgent(ctx context.Context, c *input.Cluster, nodes []*corev1.Node) []*corev1.Node {
	agents, err := input.List[*corev1.Pod](ctx, c, "node agents", &corev1.PodList{}, input.AgentLabels)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool {
		return slices.ContainsFunc(agents, func(pod *corev1.Pod) bool {
			return pod.Spec.NodeName == n.Name && pod.Status.Phase == corev1.PodRunning
		})
	})
}
