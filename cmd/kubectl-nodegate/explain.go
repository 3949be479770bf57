// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/plugin/cluster"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/plugin/text"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

func newExplain(p *plugin) *cobra.Command {
	var out *printing
	cmd := &cobra.Command{
		Use:   "explain node NAME...",
		Short: "Say what holds a node, and why",
		Long: "Say what holds a node and why: each rule that selects it, each piece of evidence with its present state and since when,\n" +
			"the taint and who put it there, what it waits for, and what happens next. It is judged now, as the operator does.",
		Example: "  kubectl nodegate explain node worker-3\n  kubectl nodegate explain node worker-3 -o wide",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			names, err := nodeNames(args)
			if err == nil && len(names) == 0 {
				err = fmt.Errorf("say which node: %s", cmd.UseLine())
			}
			if err != nil {
				return err
			}
			return p.explain(cmd.Context(), names, out)
		},
		ValidArgsFunction: p.completeNodes,
	}
	out = newPrinting(cmd)
	return cmd
}

func (p *plugin) explain(ctx context.Context, names []string, out *printing) error {
	c, err := p.cluster()
	if err != nil {
		return err
	}
	e, err := newExplainer(ctx, c, p.now())
	if err != nil {
		return err
	}
	for i, name := range names {
		explanation, err := e.node(ctx, name)
		if err != nil {
			return err
		}
		if i > 0 && out.text() {
			fmt.Fprintln(p.streams.Out)
		}
		err = out.print(p, explanation, func(s text.Style) string { return text.Explanation(explanation, s) })
		if err != nil {
			return err
		}
	}
	return nil
}

// explainer explains nodes by what it has read once for all.
type explainer struct {
	cluster  *cluster.Cluster
	now      time.Time
	set      *ruleset.Set
	status   map[types.UID]*v1alpha1.NodeReadinessRuleStatus
	evidence *evidence.Snapshot
	operator *report.Operator

	fleet     []*corev1.Node // read when a breaker asks
	fleetErr  error
	fleetRead bool
}

func newExplainer(ctx context.Context, c *cluster.Cluster, now time.Time) (*explainer, error) {
	rules, err := c.Rules(ctx)
	if err != nil {
		return nil, err
	}
	e := &explainer{cluster: c, now: now, set: cluster.Compile(rules, now), status: map[types.UID]*v1alpha1.NodeReadinessRuleStatus{}}
	for i := range rules {
		e.status[rules[i].UID] = &rules[i].Status
	}
	e.evidence = c.Evidence(ctx, e.set)
	e.operator = c.Operator(ctx, now)
	return e, nil
}

func (e *explainer) node(ctx context.Context, name string) (*report.NodeExplanation, error) {
	node, err := e.cluster.Node(ctx, name)
	if err != nil {
		return nil, err
	}
	events, eventsErr := e.cluster.Events(ctx, name)
	out := e.explain(ctx, node, events)
	if eventsErr != nil {
		out.Unread = append(out.Unread, eventsErr.Error())
	}
	if e.fleetErr != nil {
		out.Unread = append(out.Unread, "the room that maxUnavailable leaves: "+e.fleetErr.Error())
	}
	return out, nil
}

// explain explains a node as it was read.
func (e *explainer) explain(ctx context.Context, node *corev1.Node, events []corev1.Event) *report.NodeExplanation {
	in := &explain.Input{
		Node: node, Rules: e.set, Reported: e.status, Evidence: &readiness.Evidence{}, Unread: e.evidence.Unread,
		Reserve:  func(rule *ruleset.Rule, _ time.Time) bool { return e.room(ctx, rule) > 0 },
		Told:     explain.Told(events),
		Operator: e.operator, Now: e.now,
	}
	e.evidence.Gather(e.set, node.Name, in.Evidence)
	return explain.Node(in)
}

// room is for how many more nodes a rule's breaker leaves room. Where the nodes may not be listed, it is taken to leave some.
func (e *explainer) room(ctx context.Context, rule *ruleset.Rule) int {
	if !e.fleetRead {
		e.fleet, e.fleetErr = e.cluster.Nodes(ctx, labels.Everything())
		e.fleetRead = true
	}
	if e.fleetErr != nil {
		return 1
	}
	return explain.Room(rule, e.fleet, e.now)
}
