// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const (
	// grace is what a pod that becomes due after the end of the hold is left to the node controller, which evicts it
	// itself.
	grace = 5 * time.Second
	// watchEvery is how often the pods of a guarded node are looked at for some that were evicted all the same.
	watchEvery = time.Minute
	// firstTry is how long after its announcement an eviction that is not denied is done, in whole seconds.
	firstTry = 2 * time.Second
	// disruptionReason is the reason of the condition DisruptionTarget that an evicted pod has.
	disruptionReason = "EvictionGuardEnded"
)

// Reconciler finishes the eviction from one node.
type Reconciler struct {
	// Nodes reads nodes from a cache.
	Nodes client.Reader
	// Live reads and writes past the cache. A client with a cache would follow all pods once it has written one.
	Live client.Client
	// Rules is the present snapshot of all rules.
	Rules func() *ruleset.Set
	// Namespace is the operator's own.
	Namespace string
	// Bypassed is told of rules that guard a pod which was evicted all the same.
	Bypassed func(rule *ruleset.Rule, pod *corev1.Pod)
	// Recorder records events on pods.
	Recorder events.EventRecorder
	// Finished is told the name of a node when Evicted reports more of it than before; nil: it is not told.
	Finished func(node string)
	// Clock tells the time.
	Clock clock.PassiveClock

	refused  refusals
	finished finished
}

// Reconcile looks at one node.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
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
	case active && gate.EvictsPods(node):
		r.finish(node, ended) // when the other guard ends, all that is due is evicted
		return r.watch(ctx, node)
	case active || len(ended) == 0 || !evicts(node):
		r.finish(node, ended)
		if frozen && evicts(node) { // no change of the node tells when the rule is in force again
			return reconcile.Result{RequeueAfter: watchEvery}, nil
		}
		return reconcile.Result{}, nil
	}
	// The cache may be behind: whether the link is back has to be known now.
	if err := r.Live.Get(ctx, req.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if active, ended, _ = r.guards(node); active || len(ended) == 0 {
		return reconcile.Result{}, nil
	}
	return r.evict(ctx, node, ended)
}

// guards reports whether a rule guards the node's pods, and returns the rules whose guard has ended there. Of a frozen
// or suspended rule, nothing is evicted: frozen reports whether the guard of such a rule has ended.
func (r *Reconciler) guards(node *corev1.Node) (active bool, ended []*ruleset.Rule, frozen bool) {
	now := r.Clock.Now()
	for _, rule := range r.Rules().All() {
		switch guard.HoldOn(rule, node, now).State {
		case gate.HoldActive:
			active = true
		case gate.HoldEnded:
			if rule.Mode == ruleset.Enforced {
				ended = append(ended, rule)
			} else {
				frozen = true
			}
		case gate.HoldEnding:
			ended = append(ended, rule)
		}
	}
	return active, ended, frozen
}

func evicts(node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Effect == corev1.TaintEffectNoExecute {
			return true
		}
	}
	return false
}

// evict evicts every pod of the node that is due, and says when the next one will be.
func (r *Reconciler) evict(ctx context.Context, node *corev1.Node, ended []*ruleset.Rule) (reconcile.Result, error) {
	pods, err := r.podsOf(ctx, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	rule, end := r.lastOf(ended, node)
	finished := true
	var next time.Time
	again := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	r.refused.keep(node.Name, pods.Items)
	for i := range pods.Items {
		pod := &pods.Items[i]
		due, evicts := guard.Due(pod, node.Spec.Taints)
		if !evicts || pod.DeletionTimestamp != nil {
			continue
		}
		now := r.Clock.Now()
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
			return reconcile.Result{}, nil
		}
		switch err := r.evictPod(ctx, node, pod, rule); {
		case refuses(err):
			again(r.refused.add(node.Name, pod, now))
			log.FromContext(ctx).Error(err, "Could not evict a pod, trying again later", "pod", pod.Namespace+"/"+pod.Name)
			r.Recorder.Eventf(pod, node, corev1.EventTypeWarning, reasonEvictionFailed, actionEvict,
				"Could not evict the pod from node %s, trying again later: %v", node.Name, err)
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

// lastOf returns the guard that ended last, and when: until then evictions were denied.
func (r *Reconciler) lastOf(ended []*ruleset.Rule, node *corev1.Node) (last *ruleset.Rule, end time.Time) {
	for _, rule := range ended {
		if until := guard.HoldOn(rule, node, r.Clock.Now()).Until; last == nil || until.After(end) {
			last, end = rule, until
		}
	}
	return last, end
}

// recovered reports whether, as far as the cache knows by now, the rule's guard has no evictions to finish any more:
// the pods that are left stay.
func (r *Reconciler) recovered(ctx context.Context, node *corev1.Node, rule *ruleset.Rule) bool {
	now := &corev1.Node{}
	if err := r.Nodes.Get(ctx, client.ObjectKeyFromObject(node), now); err != nil {
		return apierrors.IsNotFound(err)
	}
	hold := guard.HoldOn(rule, now, r.Clock.Now()).State
	return now.UID != node.UID || hold != gate.HoldEnded && hold != gate.HoldEnding
}

func (r *Reconciler) podsOf(ctx context.Context, node *corev1.Node) (*corev1.PodList, error) {
	pods := &corev1.PodList{}
	if err := r.Live.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return nil, fmt.Errorf("listing the pods of node %q: %w", node.Name, err)
	}
	return pods, nil
}

// evictPod does what the node controller does: it announces the disruption, and deletes.
func (r *Reconciler) evictPod(ctx context.Context, node *corev1.Node, pod *corev1.Pod, rule *ruleset.Rule) error {
	if err := r.announceDisruption(ctx, pod, rule); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // it is gone, or another one has its name
		}
		return fmt.Errorf("announcing the eviction of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	err := r.Live.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	evictions.WithLabelValues(rule.Name).Inc()
	log.FromContext(ctx).Info("Evicted a pod", "pod", pod.Namespace+"/"+pod.Name, "node", node.Name, "rule", rule.Name)
	r.Recorder.Eventf(pod, node, corev1.EventTypeWarning, reasonEvicted, actionEvict,
		"Evicted from node %s: its NoExecute taints ask for that, and the eviction guard of rule %s has ended", node.Name,
		rule.Name)
	return nil
}

// announceDisruption sets the condition by which controllers and people tell an eviction from other deletions.
func (r *Reconciler) announceDisruption(ctx context.Context, pod *corev1.Pod, rule *ruleset.Rule) error {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: disruptionReason,
			Message: fmt.Sprintf("The eviction guard of rule %s has ended, and the node has a NoExecute taint",
				rule.Name),
			LastTransitionTime: metav1.NewTime(r.Clock.Now()),
		}}},
	})
	if err != nil {
		return err
	}
	return r.Live.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
}

// watch looks for pods that were evicted though they are guarded: then the API server does not ask the webhook about
// the user who does that.
func (r *Reconciler) watch(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	pods, err := r.podsOf(ctx, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !evicted(pod) {
			continue
		}
		pod.DeletionTimestamp = nil // as the webhook would have seen it
		d := guard.Decide(&guard.Request{
			User: guard.NodeController, Pod: pod, Node: node, Rules: r.Rules(), Namespace: r.Namespace, Now: r.Clock.Now(),
		})
		if d.Rule != nil && d.Hold.State == gate.HoldActive && guard.Announced(pod).LastTransitionTime.After(d.Hold.Since) {
			r.Bypassed(d.Rule, pod)
			break
		}
	}
	return reconcile.Result{RequeueAfter: watchEvery}, nil
}

// evicted reports whether the node controller has deleted the pod at its first try. Another client may have deleted
// later what was kept from it.
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
