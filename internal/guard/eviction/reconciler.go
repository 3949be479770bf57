// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/guard/endpoints"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
)

const (
	// grace is how long a pod that becomes due after the end of the guard is left to the node controller, which evicts
	// it.
	grace = 5 * time.Second
	// watchEvery is the interval between two checks for guarded pods that were evicted anyway.
	watchEvery = time.Minute
	// beforeRules is how long a node waits before the first rules are in force.
	beforeRules = time.Second
	// lookedFor is how long the node counts that was read before its pods are evicted. A process that was frozen for
	// longer than its lease may not know yet that the node has recovered.
	lookedFor = 10 * time.Second
	// firstTry is the longest time between the announcement of an eviction that is not denied and the deletion.
	firstTry = 2 * time.Second
	// disruptionReason is the reason of the condition DisruptionTarget that an evicted pod has.
	disruptionReason = "EvictionGuardEnded"
)

// Reconciler evicts the pods of a node that are due after an eviction guard has ended.
type Reconciler struct {
	// Nodes reads nodes from a cache.
	Nodes client.Reader
	// Live reads and writes past the cache. A client with a cache would watch all pods of the cluster after its first
	// write of a pod.
	Live client.Client
	// Rules returns the rules by which the leader reconciles nodes, or nil before it does. Webhooks, which have no
	// evidence, may have others in force.
	Rules func() *ruleset.Set
	// Namespace is the operator's own namespace.
	Namespace string
	// Bypassed is called with a rule and a pod that it guards, if the pod was evicted anyway.
	Bypassed func(rule *ruleset.Rule, pod *corev1.Pod)
	// Recorder records events on pods.
	Recorder events.EventRecorder
	// Finished is called with the name of a node when the result of Evicted may have changed. It may be nil.
	Finished func(node string)
	// Clock tells the time by the API server's clock, also for conditions of pods: the disruption controller sets a
	// DisruptionTarget that is older than two minutes back to False, and Jobs then count a failure.
	Clock clock.PassiveClock

	refused  refusals
	finished finished
}

// Reconcile evicts the pods of one node that are due.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.Rules() == nil {
		return reconcile.Result{RequeueAfter: beforeRules}, nil
	}
	node := &corev1.Node{}
	if err := r.Nodes.Get(ctx, req.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			r.refused.keep(req.Name, nil)
			r.finished.forget(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	active, ended, frozen := r.guards(node)
	switch {
	case active && guard.NodeControllerEvicts(node):
		r.finish(node, ended) // when the other guard ends, all that is due is evicted
		return r.watch(ctx, node)
	case active || len(ended) == 0 || !guard.AnyTaintEvicts(node):
		r.finish(node, ended)
		if frozen && guard.AnyTaintEvicts(node) { // no change of the node tells when the rule is in force again
			return reconcile.Result{RequeueAfter: watchEvery}, nil
		}
		return reconcile.Result{}, nil
	}
	// The cache may be behind, and the node may have recovered.
	looked := r.Clock.Now()
	if err := r.Live.Get(ctx, req.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if active, ended, _ = r.guards(node); active || len(ended) == 0 { // if that does not last, no event may tell
		return reconcile.Result{RequeueAfter: watchEvery}, nil
	}
	return r.evict(ctx, node, ended, looked)
}

// guards reports whether a rule's guard is active on the node, and returns the rules whose guard has ended there. A
// frozen or suspended rule evicts nothing; frozen reports whether the guard of such a rule has ended.
func (r *Reconciler) guards(node *corev1.Node) (active bool, ended []*ruleset.Rule, frozen bool) {
	now := r.Clock.Now()
	for _, rule := range r.Rules().All() {
		switch guard.HoldOn(rule, node, now).State {
		case guard.HoldActive:
			active = true
		case guard.HoldEnded, guard.HoldEnding:
			if rule.Inert() {
				frozen = true
			} else {
				ended = append(ended, rule)
			}
		}
	}
	return active, ended, frozen
}

// evict evicts every pod of the node that is due, and requeues for the time when the next one is. looked is when the
// node was read.
func (r *Reconciler) evict(ctx context.Context, node *corev1.Node, ended []*ruleset.Rule, looked time.Time) (
	reconcile.Result, error) {
	pods, err := sources.AllPods(ctx, r.Live, node.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	rule, end := r.lastOf(ended, node)
	taints := dated(node)
	finished := true
	var next time.Time
	again := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	r.refused.keep(node.Name, pods)
	for i := range pods {
		pod := &pods[i]
		due, evicts := guard.Due(pod, taints)
		if !evicts || pod.DeletionTimestamp != nil {
			continue
		}
		now := r.Clock.Now()
		if guard.Tried(pod, due) {
			due = time.Time{}
		}
		denied := !due.After(end.Add(grace)) // the replicas learn of the end at different times
		if due.After(end) {
			due = due.Add(grace)
		}
		if retry := r.refused.retryAt(pod); retry.After(due) {
			due = retry
		}
		if due.After(now) {
			again(due)
			finished = finished && (!denied || !r.refused.retryAt(pod).IsZero())
			continue
		}
		if r.recovered(ctx, node, rule) {
			return reconcile.Result{RequeueAfter: watchEvery}, nil
		}
		switch err := r.evictPod(ctx, node, pod, rule, looked); {
		case errors.Is(err, errOutdated):
			return reconcile.Result{RequeueAfter: time.Millisecond}, nil
		case refuses(err):
			again(r.refused.add(node.Name, pod, now))
			log.FromContext(ctx).Error(err, "Could not evict a pod, retrying later", "pod", pod.Namespace+"/"+pod.Name)
			r.Recorder.Eventf(pod, node, corev1.EventTypeWarning, reasonEvictionFailed, actionEvict,
				"Could not evict the pod from node %s, retrying later: %v", node.Name, err)
		case err != nil:
			return reconcile.Result{}, err
		}
	}
	if finished {
		r.finish(node, ended)
	}
	if next.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(next.Sub(r.Clock.Now()), time.Millisecond)}, nil
}

// lastOf returns the rule whose guard ended last, and the end, as the leader recorded it. Evictions were denied until
// then.
func (r *Reconciler) lastOf(ended []*ruleset.Rule, node *corev1.Node) (last *ruleset.Rule, end time.Time) {
	for _, rule := range ended {
		now := r.Clock.Now()
		at := guard.HoldOn(rule, node, now).Until
		if g, recorded := endedOn(node, rule, now); recorded {
			at = g.at
		} else if at.After(now) { // the override Release ended it earlier
			at = now
		}
		if last == nil || at.After(end) {
			last, end = rule, at
		}
	}
	return last, end
}

// dated returns the node's taints, and gives those without timeAdded the time of the last change of the taints.
// "kubectl taint" sets no timeAdded, and the node controller counts from when it sees a taint.
func dated(node *corev1.Node) []corev1.Taint {
	var changed *metav1.Time
	for i := range node.ManagedFields {
		f := &node.ManagedFields[i]
		if f.Time != nil && !f.Time.Before(changed) && f.FieldsV1 != nil &&
			strings.Contains(f.FieldsV1.GetRawString(), `"f:taints":`) {
			changed = f.Time
		}
	}
	taints := slices.Clone(node.Spec.Taints)
	for i := range taints {
		taints[i].TimeAdded = cmp.Or(taints[i].TimeAdded, changed)
	}
	return taints
}

// recovered reports whether, by the cache, the rule's guard has no more evictions to finish, so that the remaining pods
// stay.
func (r *Reconciler) recovered(ctx context.Context, node *corev1.Node, rule *ruleset.Rule) bool {
	now := &corev1.Node{}
	if err := r.Nodes.Get(ctx, client.ObjectKeyFromObject(node), now); err != nil {
		return apierrors.IsNotFound(err)
	}
	hold := guard.HoldOn(rule, now, r.Clock.Now()).State
	return now.UID != node.UID || hold != guard.HoldEnded && hold != guard.HoldEnding
}

// errOutdated means that the node must be read again before a pod is evicted.
var errOutdated = errors.New("the node was read too long ago")

// evictPod evicts as the node controller does: it sets the condition DisruptionTarget, and then deletes the pod.
func (r *Reconciler) evictPod(ctx context.Context, node *corev1.Node, pod *corev1.Pod, rule *ruleset.Rule,
	looked time.Time) error {
	if r.Clock.Since(looked) > lookedFor {
		return errOutdated
	}
	if err := r.announceDisruption(ctx, node, pod, rule); err != nil {
		if apierrors.IsNotFound(err) || replaced(err) {
			return nil
		}
		return fmt.Errorf("announcing the eviction of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if r.Clock.Since(looked) > lookedFor {
		return errOutdated
	}
	err := r.Live.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	switch {
	case apierrors.IsNotFound(err) || replaced(err):
		return nil
	case err != nil:
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	evictions.WithLabelValues(rule.Name).Inc()
	log.FromContext(ctx).Info("Evicted a pod", "pod", pod.Namespace+"/"+pod.Name, "node", node.Name, "rule", rule.Name)
	r.Recorder.Eventf(pod, node, corev1.EventTypeWarning, reasonEvicted, actionEvict,
		"Evicted from node %s because of its NoExecute taints: the eviction guard of rule %s has ended", node.Name,
		rule.Name)
	return nil
}

// replaced reports whether the API server refused a write because another pod has the name by now. A policy or webhook
// may refuse with the same codes, but names neither the field nor the precondition. A read would tell, too, but the
// operator may only list pods.
func replaced(err error) bool {
	if apierrors.IsConflict(err) { // of a deletion
		return strings.Contains(err.Error(), "precondition")
	}
	cause, found := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid) // of a patch
	return found && cause.Field == "metadata.uid"
}

// announceDisruption sets DisruptionTarget, which distinguishes an eviction from other deletions. A pod that was kept
// ready on a node that is not becomes not ready in the same write.
func (r *Reconciler) announceDisruption(ctx context.Context, node *corev1.Node, pod *corev1.Pod,
	rule *ruleset.Rule) error {
	var conditions []corev1.PodCondition
	if c := condition.OfPod(pod, corev1.DisruptionTarget); c == nil || c.Status != corev1.ConditionTrue {
		conditions = append(conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: disruptionReason,
			Message: fmt.Sprintf("The eviction guard of rule %s has ended, and the node has a NoExecute taint",
				rule.Name),
			LastTransitionTime: metav1.NewTime(r.Clock.Now()),
		})
	}
	if guard.KeptReady(node, pod) {
		conditions = append(conditions, endpoints.NotReady(r.Clock.Now()))
	}
	if len(conditions) == 0 {
		return nil // the node controller has announced it, and its deletion was denied
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": conditions},
	})
	if err != nil {
		return err
	}
	return r.Live.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
}

// watch looks for guarded pods that were evicted anyway. Then the API server does not call the webhook for the
// user who evicts.
func (r *Reconciler) watch(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	pods, err := sources.AllPods(ctx, r.Live, node.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	for i := range pods {
		pod := &pods[i]
		if !evicted(pod) {
			continue
		}
		pod.DeletionTimestamp = nil // as the webhook would have seen it
		d := guard.Decide(&guard.Request{
			User: guard.NodeController, Pod: pod, Node: node, Rules: r.Rules(), Namespace: r.Namespace,
			Now: r.Clock.Now(),
		})
		if d.Rule != nil && d.Hold.State == guard.HoldActive && guard.Announced(pod).LastTransitionTime.After(d.Hold.Since) {
			r.Bypassed(d.Rule, pod)
			break
		}
	}
	return reconcile.Result{RequeueAfter: watchEvery}, nil
}

// evicted reports whether the node controller has deleted the pod at its first try. After a denial, another client may
// have deleted the pod later.
func evicted(pod *corev1.Pod) bool {
	announced := guard.Announced(pod)
	if pod.DeletionTimestamp == nil || announced == nil {
		return false
	}
	asked := pod.DeletionTimestamp.Time
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		asked = asked.Add(-time.Duration(*seconds) * time.Second)
	}
	return asked.Sub(announced.LastTransitionTime.Time) <= firstTry
}
