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
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/cluster"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

type overrideOptions struct {
	*changing
	action   gate.OverrideAction // none takes the override off
	selector string
	last     time.Duration
	timeout  time.Duration
}

func newRelease(p *plugin) *cobra.Command {
	o := &overrideOptions{action: gate.OverrideRelease}
	cmd := &cobra.Command{
		Use:   "release node NAME...",
		Short: "Take the taints of all rules off nodes, and keep them off",
		Long: "Take the taints of all rules off nodes, and keep them off, whatever the evidence, until \"kubectl nodegate clear\" or the end\n" +
			"of --for. Other taints are not touched. It sets the annotation " + v1alpha1.OverrideAnnotation + " on the nodes.",
		Example: "  kubectl nodegate release node worker-3\n  kubectl nodegate release node -l example.com/pool=workers --for 2h --yes",
	}
	return o.command(p, cmd, "released")
}

func newHold(p *plugin) *cobra.Command {
	o := &overrideOptions{action: gate.OverrideHold}
	cmd := &cobra.Command{
		Use:   "hold node NAME...",
		Short: "Put the taints of the rules that select nodes on them, and keep them on",
		Long: "Put the taints of the rules that select nodes on them, and keep them on, whatever the evidence, until \"kubectl nodegate\n" +
			"clear\" or the end of --for. It sets the annotation " + v1alpha1.OverrideAnnotation + " on the nodes.",
		Example: "  kubectl nodegate hold node worker-3 --for 2h",
	}
	return o.command(p, cmd, "held")
}

func newClear(p *plugin) *cobra.Command {
	o := &overrideOptions{action: gate.OverrideNone}
	cmd := &cobra.Command{
		Use:     "clear node NAME...",
		Aliases: []string{"unhold", "unrelease"},
		Short:   "Let the rules decide about nodes again, after release or hold",
		Long:    "Let the rules decide about nodes again, after release or hold. It removes the annotation " + v1alpha1.OverrideAnnotation + ".",
		Example: "  kubectl nodegate clear node worker-3",
	}
	return o.command(p, cmd, "cleared")
}

func (o *overrideOptions) command(p *plugin, cmd *cobra.Command, done string) *cobra.Command {
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.ValidArgsFunction = p.completeNodes
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.override(cmd.Context(), args, o) }
	o.changing = newChanging(cmd, done)
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "The nodes with these labels, instead of names.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Second, "For how long to wait until the operator has acted. 0 does not wait.")
	if o.action != gate.OverrideNone {
		cmd.Flags().DurationVar(&o.last, "for", 0, "For how long, such as 30m or 2h. By default until it is cleared.")
	}
	return cmd
}

func (p *plugin) override(ctx context.Context, args []string, o *overrideOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.last < 0 || o.timeout < 0 {
		return errors.New("--for and --timeout: must not be negative")
	}
	names, err := nodeNames(args)
	if err != nil {
		return err
	}
	c, err := p.cluster()
	if err != nil {
		return err
	}
	nodes, err := selectNodes(ctx, c, names, o.selector)
	if err != nil {
		return err
	}
	e, err := newExplainer(ctx, c, p.now())
	if err != nil {
		return err
	}
	if err := p.ask(ctx, o.changing, o.announce(ctx, e, nodes)); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := p.apply(ctx, c, o.changing, node, o.patch(node, p.now())); err != nil {
			return err
		}
	}
	if o.dryRun != dryRunNone || o.timeout == 0 {
		return nil
	}
	return p.await(ctx, c, nodes, o)
}

// selectNodes are the nodes of a command line: by names or by labels.
func selectNodes(ctx context.Context, c *cluster.Cluster, names []string, selector string) ([]*corev1.Node, error) {
	switch {
	case len(names) > 0 && selector != "":
		return nil, errors.New("-l: give names or labels, not both")
	case len(names) == 0 && selector == "":
		return nil, errors.New("say which node: node NAME, or node -l LABELS")
	case selector != "":
		parsed, err := labels.Parse(selector)
		if err != nil {
			return nil, fmt.Errorf("-l: %w", err)
		}
		nodes, err := c.Nodes(ctx, parsed)
		if err == nil && len(nodes) == 0 {
			err = fmt.Errorf("-l: no node has the labels %s", parsed)
		}
		return nodes, err
	}
	var nodes []*corev1.Node
	for _, name := range names {
		node, err := c.Node(ctx, name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// patch is what is to be sent for a node. The UID keeps it off another node of the same name.
func (o *overrideOptions) patch(node *corev1.Node, now time.Time) map[string]any {
	var value any // null takes it off
	if o.action != gate.OverrideNone {
		text := string(o.action)
		if o.last > 0 {
			text += ";until=" + now.Add(o.last).UTC().Format(time.RFC3339)
		}
		value = text
	}
	return map[string]any{"metadata": map[string]any{"uid": node.UID, "annotations": map[string]any{v1alpha1.OverrideAnnotation: value}}}
}

// announce says what will be done to how many nodes.
func (o *overrideOptions) announce(ctx context.Context, e *explainer, nodes []*corev1.Node) string {
	held, selected := 0, 0
	for _, node := range nodes {
		x := e.explain(ctx, node, nil)
		if x.Held {
			held++
		}
		for _, r := range x.Rules {
			if r.Mode == "Enforced" && r.State != "" && r.Taint != nil {
				selected++
				break
			}
		}
	}
	until := "until \"kubectl nodegate clear\""
	if o.last > 0 {
		until = "for " + short(o.last)
	}
	which := names(nodes)
	switch o.action {
	case gate.OverrideRelease:
		return fmt.Sprintf("Releases %s%s: the taints of all rules go and stay away %s, whatever the evidence.", which, of(held, nodes), until)
	case gate.OverrideHold:
		text := fmt.Sprintf("Holds %s%s: the taints of the rules that select them are put on and stay %s, whatever the evidence.", which, of(held, nodes), until)
		if n := len(nodes) - selected; n > 0 {
			text += fmt.Sprintf("\nNo enforced rule with a taint selects %d of %d: there it has no effect until one does. \"kubectl cordon\" holds any node.", n, len(nodes))
		}
		return text
	}
	return fmt.Sprintf("Clears the override of %s: the rules decide again.", which)
}

// of says how many of some nodes are held now.
func of(held int, nodes []*corev1.Node) string {
	switch {
	case len(nodes) > 1:
		return fmt.Sprintf(", of which %d are held now", held)
	case held == 1:
		return ", which is held now"
	}
	return ", which is not held now"
}

// short is a duration without the parts that are zero.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// names are the names of some nodes, with their number.
func names(nodes []*corev1.Node) string {
	const few = 5
	if len(nodes) == 1 {
		return "node " + nodes[0].Name
	}
	var out []string
	for i, n := range nodes {
		if i == few {
			return fmt.Sprintf("%d nodes (%s and %d more)", len(nodes), strings.Join(out, ", "), len(nodes)-few)
		}
		out = append(out, n.Name)
	}
	return fmt.Sprintf("%d nodes (%s)", len(nodes), strings.Join(out, ", "))
}

// await waits until the operator has acted.
func (p *plugin) await(ctx context.Context, c *cluster.Cluster, nodes []*corev1.Node, o *overrideOptions) error {
	const interval = 250 * time.Millisecond
	waiting := nodes
	// A request that the end of the time would cut short is let go on: its error would be told instead of that.
	err := wait.PollUntilContextTimeout(ctx, interval, o.timeout, true, func(context.Context) (bool, error) {
		e, err := newExplainer(ctx, c, p.now())
		if err != nil {
			return false, err
		}
		var still []*corev1.Node
		for _, node := range waiting {
			fresh, err := c.Node(ctx, node.Name)
			if err != nil {
				return false, err
			}
			if pending(e.explain(ctx, fresh, nil)) {
				still = append(still, fresh)
			}
		}
		waiting = still
		return len(waiting) == 0, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted: the annotation is written, and the operator will act")
	case wait.Interrupted(err):
		return fmt.Errorf("%s: the annotation is written, but the operator has not acted within %s: does it run? See \"kubectl nodegate status\"", names(waiting), o.timeout)
	}
	return err
}

// pending reports whether the operator has something to do on a node.
func pending(e *report.NodeExplanation) bool {
	for i := range e.Rules {
		if t := e.Rules[i].Taint; t != nil && t.Change != "" {
			return true
		}
	}
	return false
}
