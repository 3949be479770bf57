// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/cluster"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/taints"
)

const (
	// cleanupPatience is for how long a node is tried that cannot be written to.
	cleanupPatience = 30 * time.Second
	cleanupInterval = 250 * time.Millisecond
)

func newCleanup(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Take off nodes what rules left there that are gone, where no operator is left to do it",
		Long: "Do what the operator would do about rules that are deleted, where there is none any more: take their taints, records and\n" +
			"completion markers off all nodes, and let the rules go that wait for that. Rules that are not deleted, other taints and\n" +
			"other annotations are not touched. While an operator leads it refuses: delete the rules, and the operator does it.",
		Example: "  kubectl delete nrr --all --wait=false\n  kubectl nodegate cleanup",
		Args:    cobra.NoArgs,
	}
	o := newChanging(cmd, "cleaned up")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.cleanup(cmd.Context(), o) }
	return cmd
}

func (p *plugin) cleanup(ctx context.Context, o *changing) error {
	if err := o.validate(); err != nil {
		return err
	}
	c, err := p.cluster()
	if err != nil {
		return err
	}
	if operator := c.Operator(ctx, p.now()); operator != nil && operator.Leads {
		return fmt.Errorf("the operator %s leads, by its lease: delete the rules, and it cleans up; if it is gone, try again in a minute", operator.Leader)
	}
	rules := &v1alpha1.NodeReadinessRuleList{}
	if err := c.Client.List(ctx, rules); err != nil && !undefined(err) {
		return cluster.Explain(err, "listing rules")
	}
	deleted, set := abandoned(rules.Items, p.now())
	nodes, err := c.Nodes(ctx, labels.Everything())
	if err != nil {
		return err
	}
	var todo []*corev1.Node
	for _, node := range nodes {
		if leavings(node, set, p.now()) != nil {
			todo = append(todo, node)
		}
	}
	if len(todo)+len(deleted) == 0 {
		fmt.Fprintln(p.streams.ErrOut, "Nothing to do: no rule that is deleted or gone has left anything.")
		return nil
	}
	if err := p.ask(ctx, o, announceCleanup(todo, deleted)); err != nil {
		return err
	}
	for _, node := range todo {
		if err := p.clean(ctx, c, o, node, set); err != nil {
			return err
		}
	}
	for _, rule := range deleted {
		if err := p.letGo(ctx, c, o, rule); err != nil {
			return err
		}
	}
	return nil
}

// undefined reports whether the API server does not know rules: then there are none.
func undefined(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// abandoned are the rules that wait for an operator to let them go, and the set of all rules in which those that are not
// deleted keep what they have.
func abandoned(rules []v1alpha1.NodeReadinessRule, now time.Time) ([]*v1alpha1.NodeReadinessRule, *ruleset.Set) {
	var deleted []*v1alpha1.NodeReadinessRule
	compiled := make([]*ruleset.Rule, 0, len(rules))
	for i := range rules {
		r := ruleset.Compile(&rules[i], nil, now)
		if r.Mode != ruleset.Deleting {
			r = r.Freeze(ruleset.Problem{Reason: ruleset.ReasonUnsupported, Message: "no operator leads"})
		} else if controllerutil.ContainsFinalizer(&rules[i], v1alpha1.Finalizer) {
			deleted = append(deleted, &rules[i])
		}
		compiled = append(compiled, r)
	}
	return deleted, ruleset.NewSet(compiled...)
}

// leavings is the patch that takes from a node what rules left there that are deleted or gone; nil, if that is nothing. The
// operator plans it in the same way.
func leavings(node *corev1.Node, set *ruleset.Set, now time.Time) []byte {
	swept := taints.Sweep(node, set, func(string) bool { return true })
	decided := gate.DecideNode(&gate.NodeInput{Node: node, Swept: swept.Node, Rules: set, Evidence: &readiness.Evidence{}, Now: now})
	return taints.Plan(node, swept, decided.Decisions, now).Patch
}

func announceCleanup(nodes []*corev1.Node, rules []*v1alpha1.NodeReadinessRule) string {
	switch {
	case len(nodes) == 0:
		return fmt.Sprintf("Lets %d deleted rules go, of which no node bears anything.", len(rules))
	case len(rules) == 0:
		return fmt.Sprintf("Takes the taints, records and completion markers of rules that are gone from %s.", names(nodes))
	}
	return fmt.Sprintf("Takes the taints, records and completion markers of rules that are deleted or gone from %s, and lets %d deleted rules go.", names(nodes), len(rules))
}

// clean takes from a node what is left there. Whoever writes the node meanwhile makes it look again; a policy that guards the
// records it waits for, since one that has just been deleted is obeyed for some seconds more.
func (p *plugin) clean(ctx context.Context, c *cluster.Cluster, o *changing, node *corev1.Node, set *ruleset.Set) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, cleanupInterval, cleanupPatience, true, func(ctx context.Context) (bool, error) {
		if last != nil {
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return false, err
			}
		}
		body := leavings(node, set, p.now())
		if body == nil {
			return true, nil
		}
		guarded := deniedByPolicy(last)
		last = o.send(ctx, c, node, client.RawPatch(types.JSONPatchType, body))
		switch {
		case deniedByPolicy(last):
			if !guarded {
				fmt.Fprintln(p.streams.ErrOut, "note: an admission policy still guards the records, as for a moment after it was deleted: waiting")
			}
			return false, nil
		case apierrors.IsInvalid(last) || apierrors.IsConflict(last):
			return false, nil
		}
		return last == nil, last
	})
	if wait.Interrupted(err) && last != nil && ctx.Err() == nil {
		err = last
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil // and all that it bore with it
	case deniedByPolicy(err):
		return fmt.Errorf("changing node %q: Nodegate's own policy lets nobody but the operator write its records: delete it first, as docs/uninstall.md says: %w", node.Name, err)
	case err != nil:
		return cluster.Explain(err, fmt.Sprintf("changing node %q", node.Name))
	}
	return o.printer.PrintObj(node, p.streams.Out)
}

// deniedByPolicy reports whether an admission policy has refused something.
func deniedByPolicy(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// letGo takes the operator's finalizer from a rule.
func (p *plugin) letGo(ctx context.Context, c *cluster.Cluster, o *changing, rule *v1alpha1.NodeReadinessRule) error {
	before := rule.DeepCopy()
	controllerutil.RemoveFinalizer(rule, v1alpha1.Finalizer)
	err := o.send(ctx, c, rule, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("rule %s has been changed in the meantime: try again", rule.Name)
	case client.IgnoreNotFound(err) != nil:
		return cluster.Explain(err, fmt.Sprintf("changing rule %q", rule.Name))
	}
	return o.printer.PrintObj(rule, p.streams.Out)
}
