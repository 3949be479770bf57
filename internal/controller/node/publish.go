// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/publish"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
)

// finish writes the conditions that rules publish, after the taints, and stores the decisions in the fleet. If the
// rules have changed since the taints were written, it leaves the conditions to the next reconcile, after rulesDelay: a
// rule may be frozen by now.
func (r *Reconciler) finish(ctx context.Context, p *pass, node *corev1.Node, outcome taints.Outcome) (reconcile.Result,
	error) {
	p.changes = slices.DeleteFunc(p.changes, func(c publish.ConditionChange) bool {
		if c.Rule == nil || c.Remove || !outcome.Full[c.Rule.UID] {
			return false
		}
		record, _ := nodeview.ReadRecord(node.Annotations[c.Rule.RecordKey()])
		return record.Published != c.Type // the condition would stay after the rule
	})
	if len(p.changes) == 0 || r.Fleet.Rules() != p.set {
		r.record(p, node, outcome, nil)
		if len(p.changes) == 0 && !limited(p.decisions) {
			r.done(p)
		}
		return r.again(p), nil
	}
	content := unpublished(p.node, p.changes)
	if last := r.retries.wait(p.node.Name, content, p.recheck, p.now); last != nil {
		r.record(p, node, outcome, &last.failure)
		return reconcile.Result{}, tooEarly(last)
	}
	if !publish.SameConditions(p.changes, p.node, node) { // node is newer than what was decided about
		conflicts.Inc()
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if node != p.node && r.late(p) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	written, err := r.publish(ctx, p, node)
	switch {
	case err == nil:
		r.record(p, written, outcome, nil)
		r.done(p)
		return r.again(p), nil
	case gone(err):
		r.vanished(p, node, outcome, failure{reason: failurePublished, message: err.Error(), publishers: true})
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err): // another client has written the node
		conflicts.Inc()
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	for i := range p.changes {
		if rule := p.changes[i].Rule; rule != nil {
			failures.WithLabelValues(rule.Name, failurePublish).Inc()
		}
	}
	failed := failure{reason: failurePublished, message: err.Error(), publishers: true, rejected: rejected(err)}
	r.record(p, node, outcome, &failed)
	r.retries.failed(p.node.Name, &retry{write: content, recheck: p.recheck, failure: failed, err: err}, r.Clock.Now())
	return reconcile.Result{}, err
}

// late reports whether the time has passed in which a rate allows that a condition becomes False: the write of the
// taints took too long.
func (r *Reconciler) late(p *pass) bool {
	return slices.ContainsFunc(p.changes, func(c publish.ConditionChange) bool {
		return c.Rule != nil && c.Status == corev1.ConditionFalse && !r.Fleet.InTime(c.Rule.UID, p.node.Name,
			limit.Marks)
	})
}

// limited reports whether a limit keeps a rule from holding the node, or its condition from being False: a write that
// has failed may only wait.
func limited(decisions []state.Decision) bool {
	return slices.ContainsFunc(decisions, func(d state.Decision) bool { return d.Limit != "" || d.Unmarked })
}

// publish writes the conditions that rules publish in one patch, and returns the node as it is then.
func (r *Reconciler) publish(ctx context.Context, p *pass, node *corev1.Node) (*corev1.Node, error) {
	body, err := publish.ConditionsPatch(node, p.changes, p.now)
	if err != nil {
		return nil, err
	}
	written := &corev1.Node{}
	written.Name = node.Name
	if err := r.Client.Status().Patch(ctx, written, client.RawPatch(types.StrategicMergePatchType, body)); err != nil {
		return nil, fmt.Errorf("patching conditions of node %q: %w", node.Name, err)
	}
	r.ownWrites.expect(written)
	for i := range p.changes {
		c := &p.changes[i]
		if c.Rule == nil {
			continue
		}
		status := string(c.Status)
		if c.Remove {
			status = "Removed"
		}
		if c.Remove || c.Began {
			log.FromContext(ctx).Info("Changed node condition", "rule", c.Rule.Name, "condition", c.Type, "status", status)
			conditionChanges.WithLabelValues(c.Rule.Name, status).Inc()
		}
	}
	return written, nil
}

// publishes reports whether a condition of a rule was to change.
func (p *pass) publishes(rule *ruleset.Rule) bool {
	return slices.ContainsFunc(p.changes, func(c publish.ConditionChange) bool { return c.Rule == rule })
}

// unpublished says which conditions were to be written, and on which node.
func unpublished(node *corev1.Node, changes []publish.ConditionChange) string {
	var b strings.Builder
	fmt.Fprintf(&b, "conditions of %s\n", node.UID)
	for i := range changes {
		fmt.Fprintf(&b, "%s %s %t\n", changes[i].Type, changes[i].Status, changes[i].Remove)
	}
	return b.String()
}

// publishedStatus is the status of the condition that the rule has published on the node; empty if it has none there.
func publishedStatus(d *state.Decision, node *corev1.Node) corev1.ConditionStatus {
	if d.Rule.Spec.Publish == nil || d.Unpublished != "" {
		return ""
	}
	if c := nodeview.Published(node, d.Rule.Spec.Publish.ConditionType); c != nil {
		return condition.StatusOf(c)
	}
	return ""
}
