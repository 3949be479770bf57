// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// SetRules gives the rules to the fleet, and starts the watches of their evidence. It returns the nodes that a changed
// rule concerns, and those that were reconciled with the former rules after the list of nodes was read: the list may
// lack such a node, or its new labels.
func (r *Reconciler) SetRules(ctx context.Context, set *ruleset.Set) ([]string, error) {
	before := r.Fleet.Records()
	list := &corev1.NodeList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	r.Evidence.SetRules(ctx, set)
	wanted := set
	set = r.resolve(wanted)
	if r.Propose != nil {
		r.Propose(set)
	}
	r.startups.setRules(r.Fleet.Rules(), set, r.StartupObjective)
	known := r.Fleet.Rules()
	if slices.ContainsFunc(set.All(), func(rule *ruleset.Rule) bool { return known.Rule(rule.UID) == nil }) {
		rules := &v1alpha1.NodeReadinessRuleList{}
		if err := r.Client.List(ctx, rules); err != nil {
			return nil, fmt.Errorf("listing rules: %w", err)
		}
		r.Fleet.Restore(rules.Items)
	}
	names := r.Fleet.SetRules(set, nodes, r.Clock.Now())
	r.Evidence.StopUnused(wanted, set) // not earlier: see gather
	return append(names, r.Fleet.RecordedSince(before)...), nil
}

// resolve returns the set as it is with the evidence that can be read now.
func (r *Reconciler) resolve(set *ruleset.Set) *ruleset.Set {
	if !set.Gathers() {
		return set
	}
	return set.Resolve(ruleset.Known{Unavailable: r.Evidence.Unavailable, Cluster: evidence.Cluster{
		DaemonSets: r.Evidence.DaemonSets, TransientTaintPrefixes: r.TransientTaintPrefixes}}, r.Fleet.Rules())
}

// Relevant passes changes that a verdict may depend on. It passes the event of this controller's own write only if a
// requirement may read what was written, and a heartbeat only if the heartbeat alone may change a verdict: if evidence
// is stale, older than the node's last boot, or from the future. While the annotations are full, it passes every
// change: each may make room for a record.
func (r *Reconciler) Relevant() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			before, after := e.ObjectOld, e.ObjectNew
			return judgedChanged(before, after) || r.Fleet.HeartbeatCounts(after.Name) ||
				r.Fleet.Rules().Inspects() && inspectedChanged(before, after) ||
				writtenChanged(before, after) && !r.ownWrites.is(after)
		},
	}
}

// judgedChanged reports whether a field has changed that other clients write and that verdicts and decisions depend on.
func judgedChanged(before, after *corev1.Node) bool {
	return before.UID != after.UID ||
		before.Spec.Unschedulable != after.Spec.Unschedulable ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Status.NodeInfo.BootID != after.Status.NodeInfo.BootID ||
		before.Annotations[v1alpha1.OverrideAnnotation] != after.Annotations[v1alpha1.OverrideAnnotation] ||
		before.Annotations[v1alpha1.MaintenanceAnnotation] != after.Annotations[v1alpha1.MaintenanceAnnotation] ||
		!maps.Equal(before.Labels, after.Labels) ||
		conditionsChanged(before.Status.Conditions, after.Status.Conditions)
}

// writtenChanged reports whether a field has changed that this controller writes.
func writtenChanged(before, after *corev1.Node) bool {
	return !ruleset.SameTaints(before.Spec.Taints, after.Spec.Taints) ||
		annotationsChanged(before.Annotations, after.Annotations)
}

// inspectedChanged reports whether another field has changed that a requirement may read. This controller's own writes
// of taints count, too: another rule may wait until a taint is gone.
func inspectedChanged(before, after *corev1.Node) bool {
	b, a := &before.Status, &after.Status
	return !ruleset.SameTaints(before.Spec.Taints, after.Spec.Taints) ||
		before.Spec.ProviderID != after.Spec.ProviderID ||
		!equality.Semantic.DeepEqual(b.NodeInfo, a.NodeInfo) ||
		!maps.Equal(before.Annotations, after.Annotations) ||
		!slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) ||
		!slices.Equal(b.Addresses, a.Addresses) ||
		!slices.Equal(b.DeclaredFeatures, a.DeclaredFeatures) ||
		!equality.Semantic.DeepEqual(b.Allocatable, a.Allocatable) ||
		!equality.Semantic.DeepEqual(b.Capacity, a.Capacity) ||
		!slices.EqualFunc(b.Conditions, a.Conditions, func(x, y corev1.NodeCondition) bool {
			return x.Reason == y.Reason &&
				x.Message == y.Message
		})
}

func annotationsChanged(before, after map[string]string) bool {
	if maps.Equal(before, after) {
		return false
	}
	ours := func(m map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			if strings.HasPrefix(k, v1alpha1.RecordAnnotationPrefix) ||
				strings.HasPrefix(k, v1alpha1.Served().MarkerPrefix) {
				out[k] = v
			}
		}
		return out
	}
	return !maps.Equal(ours(before), ours(after))
}

func conditionsChanged(before, after []corev1.NodeCondition) bool {
	if len(before) != len(after) {
		return true
	}
	ours := func(c *corev1.NodeCondition) bool { return strings.HasPrefix(c.Reason, v1alpha1.PublishedReasonPrefix) }
	for i := range before {
		b, a := &before[i], &after[i]
		if b.Type != a.Type || b.Status != a.Status || !b.LastTransitionTime.Equal(&a.LastTransitionTime) ||
			ours(b) != ours(a) || // another controller publishes it now
			condition.Undecided(b) != condition.Undecided(a) || // the rule that publishes it knows more, or less
			a.LastHeartbeatTime.Before(&b.LastHeartbeatTime) { // it is stale earlier than the last verdict said
			return true
		}
	}
	return false
}
