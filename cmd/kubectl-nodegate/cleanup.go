// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
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

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/explain"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/publish"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
)

const (
	cleanupPatience = 30 * time.Second // how long to retry a node that cannot be updated
	cleanupInterval = 250 * time.Millisecond
)

func newCleanup(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove taints and annotations of deleted rules when no operator is running",
		Long: `Clean up after deleted rules when no operator is running: remove their taints, records, completion
markers and published conditions from all nodes, and the finalizer of rules that wait for that. The
command also removes overrides that have ended, and names the nodes that keep another one. It does not
change rules that are not deleted, other taints and other annotations.

The command fails if an operator leads: then delete the rules, and the operator cleans up. It also
fails if the leases, which tell that, cannot be read, or if the cluster shows that Nodegate served the
other API group. In the default API group, it fails while another controller renews its lease, and it
needs --api-group if AdmissionRules is deleted, because the group may belong to another controller. To
remove conditions that rules have published, it needs the permission to patch nodes/status.`,
		Example: "  kubectl delete nodereadinessrules.GROUP --all --wait=false\n  kubectl nodegate cleanup --api-group=GROUP",
		Args:    cobra.NoArgs,
	}
	o := newChanging(cmd, "cleaned up")
	cmd.RunE = p.onCluster(func(ctx context.Context, c *input.Cluster, _ []string) error {
		return o.flush(p, p.cleanup(ctx, c, o))
	})
	return cmd
}

func (p *plugin) cleanup(ctx context.Context, c *input.Cluster, o *changing) error {
	leader, err := c.Leader(ctx)
	switch {
	case err != nil:
		return input.Explain(err, "listing leases, which tell whether an operator leads")
	case leader != "":
		return fmt.Errorf("operator %s is running, according to its lease: delete the rules, and it cleans up; if it no "+
			"longer runs, retry in a minute", leader)
	}
	rules := &v1alpha1.NodeReadinessRuleList{}
	err = c.List(ctx, rules)
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return input.Explain(err, "listing rules")
	}
	nodes, err := c.Nodes(ctx, labels.Everything())
	if err != nil {
		return err
	}
	if err := c.CheckInstalled(ctx, nodes); err != nil {
		return err
	}
	foreign, err := c.Foreign(ctx)
	if err != nil {
		return err
	}
	deleted, set := deletedRules(rules.Items, p.now())
	set = set.WithForeign(foreign)
	p.nameOverridden(nodes)
	p.nameListed(ctx, c, set)
	nodes = slices.DeleteFunc(nodes, func(n *corev1.Node) bool {
		patch, conditions := leftovers(n, set, p.now())
		return patch == nil && len(conditions) == 0
	})
	if len(nodes)+len(deleted) == 0 {
		fmt.Fprintln(p.streams.ErrOut, "Nothing to do: no node has taints or annotations of deleted rules, or an override "+
			"that has ended.")
		return nil
	}
	var does []string
	if len(nodes) > 0 {
		does = append(does, "Removes the taints, records, completion markers and conditions of deleted rules, and "+
			"overrides that have ended, from "+names(nodes)+".")
	}
	if len(deleted) > 0 {
		does = append(does, fmt.Sprintf("Removes the finalizer of %s.", report.Plural(len(deleted), "deleted rule",
			"deleted rules")))
	}
	if err := p.ask(ctx, o, strings.Join(does, "\n")); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := p.clean(ctx, c, o, node, set); err != nil {
			return err
		}
	}
	for _, rule := range deleted {
		before := rule.DeepCopy()
		controllerutil.RemoveFinalizer(rule, v1alpha1.Served().Finalizer)
		err := o.send(ctx, c, rule, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return input.Explain(err, fmt.Sprintf("changing rule %q", rule.Name))
		}
		if err := o.print(p, rule); err != nil {
			return err
		}
	}
	return nil
}

// nameOverridden names the nodes whose override stays, because it has not ended.
func (p *plugin) nameOverridden(nodes []*corev1.Node) {
	var kept []*corev1.Node
	for _, n := range nodes {
		if _, ok := n.Annotations[v1alpha1.OverrideAnnotation]; ok && !nodeview.OverrideEnded(n, p.now()) {
			kept = append(kept, n)
		}
	}
	if len(kept) > 0 {
		fmt.Fprintf(p.streams.ErrOut, "warning: %s: the annotation %s stays: remove it with kubectl annotate node NODE "+
			"%[2]s-\n", names(kept), v1alpha1.OverrideAnnotation)
	}
}

// nameListed warns if admission goes on to taint new nodes for deleted rules.
func (p *plugin) nameListed(ctx context.Context, c *input.Cluster, set *ruleset.Set) {
	object := &admissionv1alpha1.AdmissionRules{}
	if c.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, object) != nil {
		return // there is none, or this user may not read it
	}
	for _, listed := range ruleset.CompileAdmission(object) {
		if r := set.Rule(types.UID(listed.UID)); r == nil || r.Mode == ruleset.Deleting {
			fmt.Fprintf(p.streams.ErrOut, "warning: the admission policy, if it is installed, still taints new nodes for the "+
				"deleted rule %s: run kubectl delete admissionrules %s, and then this command with --api-group=%s\n",
				listed.Name, object.Name, v1alpha1.Served().Name)
			return
		}
	}
}

// deletedRules returns the rules that wait for an operator to remove their finalizer, and the set of all rules, in
// which those that are not deleted are frozen.
func deletedRules(rules []v1alpha1.NodeReadinessRule, now time.Time) ([]*v1alpha1.NodeReadinessRule, *ruleset.Set) {
	var deleted []*v1alpha1.NodeReadinessRule
	compiled := make([]*ruleset.Rule, 0, len(rules))
	for i := range rules {
		r := ruleset.Compile(&rules[i], nil, now)
		r.RemoveMarkers = true // no operator would remove them later
		if r.Mode != ruleset.Deleting {
			// It is left to an operator, or to another controller, also where an override says Release.
			r = r.Freeze(ruleset.Problem{Reason: ruleset.ReasonOtherController, Message: "no operator leads"})
		} else if controllerutil.ContainsFinalizer(&rules[i], v1alpha1.Served().Finalizer) {
			deleted = append(deleted, &rules[i])
		}
		compiled = append(compiled, r)
	}
	return deleted, ruleset.NewSet(compiled...)
}

// leftovers returns a patch that removes the taints and annotations of deleted rules, or nil if the node has none, and
// the removals of the conditions that these rules have published. Their records are removed after the conditions. The
// operator plans both in the same way.
func leftovers(node *corev1.Node, set *ruleset.Set, now time.Time) (patch []byte, removals []publish.ConditionChange) {
	d := explain.Decide(node, set, sources.Of(nil, set), now, nil, nil)
	return d.Plan.Patch, slices.DeleteFunc(d.Conditions, func(c publish.ConditionChange) bool { return !c.Remove })
}

// removeConditions removes the conditions that deleted rules have published, and changes the node to what it is then.
func (p *plugin) removeConditions(ctx context.Context, c *input.Cluster, o *changing, node *corev1.Node,
	set *ruleset.Set) error {
	_, changes := leftovers(node, set, p.now())
	if len(changes) == 0 || o.dryRun == dryRunClient {
		return nil
	}
	body, err := publish.ConditionsPatch(node, changes, p.now())
	if err != nil {
		return err
	}
	var options []client.SubResourcePatchOption
	if o.dryRun == dryRunServer {
		options = append(options, client.DryRunAll)
	}
	return c.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, body), options...)
}

// clean removes leftovers from a node. It reads the node again if it was changed meanwhile, and waits for an admission
// policy that protects the records: the API server applies a deleted policy for some seconds more.
func (p *plugin) clean(ctx context.Context, c *input.Cluster, o *changing, node *corev1.Node, set *ruleset.Set) error {
	var last error
	denied := func() bool { // by a policy
		return apierrors.IsForbidden(last) && strings.Contains(last.Error(), "ValidatingAdmissionPolicy")
	}
	err := wait.PollUntilContextTimeout(ctx, cleanupInterval, cleanupPatience, true, func(ctx context.Context) (bool,
		error) {
		if last != nil {
			if err := c.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return false, err
			}
		}
		waiting := denied()
		if last = p.removeConditions(ctx, c, o, node, set); last == nil {
			body, _ := leftovers(node, set, p.now())
			if body == nil {
				return true, nil
			}
			last = o.send(ctx, c, node, client.RawPatch(types.JSONPatchType, body))
		}
		if denied() && !waiting {
			fmt.Fprintln(p.streams.ErrOut, "warning: an admission policy protects the records; waiting, in case it was just "+
				"deleted")
		}
		if denied() || apierrors.IsInvalid(last) || apierrors.IsConflict(last) {
			return false, nil
		}
		return last == nil, last
	})
	if wait.Interrupted(err) && last != nil && ctx.Err() == nil {
		err = last
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil // the node was deleted
	case err != nil && denied():
		return fmt.Errorf("changing node %q: Nodegate's admission policy allows only the operator to write its records: "+
			"delete the policy first, as docs/uninstall.md says: %w", node.Name, err)
	case err != nil:
		return input.Explain(err, fmt.Sprintf("changing node %q", node.Name))
	}
	return o.print(p, node)
}
