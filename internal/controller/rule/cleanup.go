// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/text"
)

// nodesPatience is how long a rule waits without any progress for nodes that cannot be evaluated or updated.
const nodesPatience = 60 * time.Second

// waited is the least number of nodes that a rule has waited for, and since when it is so small.
type waited struct {
	least int
	since time.Time
}

// cleanUp removes the finalizer of a deleted rule when no node has anything of it, or when nodesPatience has ended.
// It also waits for nodes that were not evaluated since the deletion: an earlier patch may still be on its way.
func (r *Reconciler) cleanUp(ctx context.Context, rule *v1alpha1.NodeReadinessRule, compiled *ruleset.Rule,
	pending int) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(rule, v1alpha1.Served().Finalizer) {
		return r.sayCleaned(ctx, rule)
	}
	if compiled.Yields() { // the fleet gets another version when the other controller's rules are read
		later, err := r.sayDeleting(ctx, rule, "this is fixed: "+compiled.Problems[0].String())
		return reconcile.Result{RequeueAfter: later}, err
	}
	left, err := r.nodesWith(ctx, func(n *corev1.Node) bool { return nodeview.Leftover(compiled, n) })
	if err != nil {
		return reconcile.Result{}, err
	}
	if n := len(left) + pending; n > 0 {
		if wait := r.waitFor(n, rule, func(p *progress) *waited { return &p.cleanup }); wait > 0 {
			later, err := r.sayDeleting(ctx, rule, "no node has its taint or its record any more")
			if later > 0 {
				wait = min(wait, later)
			}
			return reconcile.Result{RequeueAfter: wait}, err // or earlier, when the fleet reports a change
		}
	}
	if err := r.patchFinalizers(ctx, rule, controllerutil.RemoveFinalizer); err != nil {
		return retry(err, "removing the finalizer from rule %q", rule.Name)
	}
	if len(left) > 0 {
		log.FromContext(ctx).Info("Removed the finalizer of a deleted rule, although nodes could not be cleaned up", "nodes",
			len(left))
		r.warn(rule, reasonCleanupIncomplete, actionCleanUp,
			"%s could not be cleaned up; the operator retries: %s", text.Nodes(len(left)), text.Few(left, maxNames, len(left)))
	}
	return r.sayCleaned(ctx, rule)
}

// sayCleaned removes what the status says of nodes if the finalizers of others keep a rule for which the operator does
// nothing more.
func (r *Reconciler) sayCleaned(ctx context.Context, rule *v1alpha1.NodeReadinessRule) (reconcile.Result, error) {
	if len(rule.Finalizers) == 0 {
		return reconcile.Result{}, nil
	}
	status := v1alpha1.NodeReadinessRuleStatus{ObservedGeneration: rule.Generation, Nodes: &v1alpha1.NodeCounts{}}
	if ready := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		status.Conditions = []metav1.Condition{*ready}
	}
	r.setDeleting(&status, rule.Generation,
		"other controllers remove their finalizers: "+strings.Join(rule.Finalizers, ", "))
	later, err := r.write(ctx, rule, status)
	return reconcile.Result{RequeueAfter: later}, err
}

// sayDeleting writes into the status, once, what the rule waits for. It returns when to try again if the statuses of
// other rules come first.
func (r *Reconciler) sayDeleting(ctx context.Context, rule *v1alpha1.NodeReadinessRule, until string) (time.Duration,
	error) {
	status := upgraded(rule, r.Clock.Now()).Status.DeepCopy()
	r.setDeleting(status, rule.Generation, until)
	return r.write(ctx, rule, *status)
}

func (r *Reconciler) setDeleting(status *v1alpha1.NodeReadinessRuleStatus, generation int64, until string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: ReasonDeleting,
		Message:            text.Clip("The rule is being deleted, and waits until "+until, v1alpha1.MaxStatusMessage),
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(r.Clock.Now())})
}

// write writes the status of a deleted rule, if it has changed.
func (r *Reconciler) write(ctx context.Context, rule *v1alpha1.NodeReadinessRule,
	status v1alpha1.NodeReadinessRuleStatus) (time.Duration, error) {
	if equality.Semantic.DeepEqual(status, rule.Status) {
		return 0, nil
	}
	if later := r.admit(rule, r.Clock.Now()); later > 0 {
		return later, nil
	}
	rule.Status = status
	if err := client.IgnoreNotFound(r.Client.Status().Update(ctx, rule)); err != nil && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("writing the status of rule %q: %w", rule.Name, err)
	}
	fleet.StatusWrites.Inc()
	return 0, nil // after a conflict, the change that caused it queues the rule again
}

// waitFor returns how long a rule still waits for n nodes. A fleet takes as long as it takes while there is progress:
// an operator that is uninstalled when the rules are gone leaves nothing behind.
func (r *Reconciler) waitFor(n int, rule *v1alpha1.NodeReadinessRule, which func(*progress) *waited) time.Duration {
	now := r.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	p := which(r.progress(rule))
	if p.since.IsZero() || p.since.After(now) || n < p.least {
		p.least, p.since = n, now
	}
	return p.since.Add(nodesPatience).Sub(now)
}
