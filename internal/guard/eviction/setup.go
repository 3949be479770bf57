// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

const (
	// workers is how many nodes are emptied at a time.
	workers = 4
	// firstRetry and lastRetry bound the delay between tries of a node that failed.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// SetupWithManager adds the controller to a manager. Nodes that bear the record of a hold are queued when that, or
// their taints, change.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	c, err := controller.New("eviction", mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		LogConstructor: func(req *reconcile.Request) logr.Logger {
			logger := mgr.GetLogger().WithValues("controller", "eviction")
			if req == nil {
				return logger
			}
			return logger.WithValues("node", req.Name)
		},
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("creating the eviction controller: %w", err)
	}
	nodes := source.Kind(mgr.GetCache(), &corev1.Node{}, &handler.TypedEnqueueRequestForObject[*corev1.Node]{}, Relevant())
	if err := c.Watch(nodes); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	return nil
}

// Relevant lets through nodes with the record of a guard when that, or their taints, change.
func Relevant() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		CreateFunc:  func(e event.TypedCreateEvent[*corev1.Node]) bool { return guarded(e.Object) },
		DeleteFunc:  func(event.TypedDeleteEvent[*corev1.Node]) bool { return false },
		GenericFunc: func(event.TypedGenericEvent[*corev1.Node]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			return guarded(e.ObjectNew) && (!maps.Equal(e.ObjectOld.Annotations, e.ObjectNew.Annotations) ||
				!equality.Semantic.DeepEqual(e.ObjectOld.Spec.Taints, e.ObjectNew.Spec.Taints))
		},
	}
}

// guarded reports whether a node bears the record of a hold.
func guarded(node *corev1.Node) bool {
	for key, value := range node.Annotations {
		if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) && strings.Contains(value, `"guardedSince"`) {
			return true
		}
	}
	return false
}
