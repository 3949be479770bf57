// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/controller"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/watch"
)

const (
	// firstRetry and lastRetry bound the delay between tries of a node that failed.
	firstRetry = 20 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// SetupWithManager adds the controller to a manager. Nodes are queued when something about them changes that a verdict
// may depend on, and by the source of rules, which waits until the nodes are cached.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, rules *RulesSource, workers int) error {
	c, err := crcontroller.New("node", mgr, crcontroller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		LogConstructor: func(req *reconcile.Request) logr.Logger {
			logger := mgr.GetLogger().WithValues("controller", "node")
			if req == nil {
				return logger
			}
			return logger.WithValues("node", req.Name)
		},
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("creating the node controller: %w", err)
	}
	rules.nodes = mgr.GetCache().WaitForCacheSync
	if err := c.Watch(rules); err != nil {
		return fmt.Errorf("watching rules: %w", err)
	}
	nodes := source.Kind(mgr.GetCache(), &corev1.Node{}, &handler.TypedEnqueueRequestForObject[*corev1.Node]{},
		r.Relevant())
	if err := c.Watch(nodes); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	return nil
}

// RulesSource brings the rules to the fleet before the first node is looked at, and queues the nodes that a changed
// rule concerns behind all others.
type RulesSource struct {
	reconciler *Reconciler
	rules      *watch.Rules
	nodes      func(context.Context) bool
	queue      *controller.Queue
	start      func(func())
	ctx        context.Context

	mu  sync.Mutex
	set *ruleset.Set // the last one that the cache told of
}

// FollowRules makes the source of a reconciler's rules, and its evidence. What may block is given to start, which runs
// it later, and not in the same call.
func (r *Reconciler) FollowRules(
	rules *watch.Rules, queue *controller.Queue, informers evidence.Informers, start func(func()),
) *RulesSource {
	s := &RulesSource{reconciler: r, rules: rules, queue: queue, start: start}
	r.Evidence = evidence.New(informers, s)
	return s
}

// Start implements source.Source.
func (s *RulesSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.ctx = ctx
	return s.queue.Start(ctx, queue)
}

// WaitForSync implements source.SyncingSource: both numbers of every breaker are complete before the first node is
// acted on.
func (s *RulesSource) WaitForSync(ctx context.Context) error {
	if !s.nodes(ctx) {
		return fmt.Errorf("waiting for the caches: %w", ctx.Err())
	}
	if err := s.rules.WaitForSync(ctx); err != nil {
		return err
	}
	s.Begin()
	return nil
}

// Begin brings the rules to the fleet, now and after each change. The source has been started, and nodes and rules are
// synced.
func (s *RulesSource) Begin() {
	s.rules.Subscribe(func(set *ruleset.Set) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set = set
		s.takeOver()
	})
}

// takeOver brings the rules to the fleet. The caller holds s.mu.
func (s *RulesSource) takeOver() {
	names, err := s.reconciler.setRules(s.ctx, s.set)
	if err != nil {
		if s.ctx.Err() == nil {
			log.FromContext(s.ctx).Error(err, "Taking over changed rules")
		}
		return
	}
	s.queue.AddLow(names...)
}

// NodesChanged implements evidence.Listener.
func (s *RulesSource) NodesChanged(nodes ...string) { s.queue.Add(nodes...) }

// AvailabilityChanged implements evidence.Listener.
func (s *RulesSource) AvailabilityChanged() {
	s.start(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() == nil {
			s.takeOver()
		}
	})
}

func (r *Reconciler) setRules(ctx context.Context, set *ruleset.Set) ([]string, error) {
	list := &corev1.NodeList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	if r.Evidence != nil {
		r.Evidence.SetRules(ctx, set)
		wanted := set
		set = r.judgeable(wanted)
		r.Evidence.StopUnused(wanted, set)
	}
	return r.Fleet.SetRules(set, nodes, r.Clock.Now()), nil
}

// judgeable is the set with the rules frozen whose evidence cannot be read, or not yet: it would look as if it were
// missing. An edited rule stays in force as it was until the new evidence has been read. All others go on.
func (r *Reconciler) judgeable(set *ruleset.Set) *ruleset.Set {
	if !set.Gathers() {
		return set
	}
	before := r.Fleet.Rules()
	rules := slices.Clone(set.All())
	for i, rule := range rules {
		if rule.Mode == ruleset.Deleting || rule.Mode == ruleset.Frozen {
			continue
		}
		if p := r.Evidence.Unavailable(rule); p != nil {
			rules[i] = rule.FreezeLike(before.Rule(rule.UID), *p)
			former := before.Rule(rule.UID)
			if p.Reason == evidence.ReasonPending && rule.Mode == ruleset.Enforced && former != nil &&
				former.Mode == ruleset.Enforced && r.Evidence.Unavailable(former) == nil {
				rules[i] = former
			}
		}
	}
	return ruleset.NewSet(rules...).FreezeDependents(before)
}

// Relevant lets through what a verdict may depend on, but not the echo of this controller's own patch. A heartbeat is
// let through only where it alone may change one: where evidence is stale, or was reported before the node's last boot.
func (r *Reconciler) Relevant() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			before, after := e.ObjectOld, e.ObjectNew
			return judgedChanged(before, after) || r.Fleet.HeartbeatDecides(after.Name) ||
				r.Fleet.Rules().Inspects() && inspectedChanged(before, after) ||
				writtenChanged(before, after) && !r.ownWrites.is(after)
		},
	}
}

// judgedChanged reports whether anything has changed that verdicts and decisions are about and that others write.
func judgedChanged(before, after *corev1.Node) bool {
	return before.UID != after.UID ||
		before.Spec.Unschedulable != after.Spec.Unschedulable ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Status.NodeInfo.BootID != after.Status.NodeInfo.BootID ||
		before.Annotations[v1alpha1.OverrideAnnotation] != after.Annotations[v1alpha1.OverrideAnnotation] ||
		!maps.Equal(before.Labels, after.Labels) ||
		conditionsChanged(before.Status.Conditions, after.Status.Conditions)
}

// writtenChanged reports whether anything has changed that this controller writes.
func writtenChanged(before, after *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		annotationsChanged(before.Annotations, after.Annotations)
}

// inspectedChanged reports whether anything else has changed that a resource or an expression may be about.
func inspectedChanged(before, after *corev1.Node) bool {
	b, a := &before.Status, &after.Status
	return before.Spec.ProviderID != after.Spec.ProviderID ||
		!equality.Semantic.DeepEqual(b.NodeInfo, a.NodeInfo) ||
		!maps.Equal(before.Annotations, after.Annotations) ||
		!slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) ||
		!slices.Equal(b.Addresses, a.Addresses) ||
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
				strings.HasPrefix(k, v1alpha1.BootstrapAnnotationPrefix) {
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
	for i := range before {
		b, a := &before[i], &after[i]
		if b.Type != a.Type || b.Status != a.Status || !b.LastTransitionTime.Equal(&a.LastTransitionTime) {
			return true
		}
	}
	return false
}
