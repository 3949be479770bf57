// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Controller is a controller of cluster-scoped objects.
type Controller struct {
	// Name is the controller's name in metrics. Object is the log key of an object's name.
	Name, Object string
	Reconciler   reconcile.Reconciler
	// Workers is the number of objects that are reconciled at the same time.
	Workers int
	// FirstRetry and LastRetry are the shortest and the longest delay before an object that failed is tried again.
	// RateLimiter replaces them if it is not nil.
	FirstRetry, LastRetry time.Duration
	RateLimiter           workqueue.TypedRateLimiter[reconcile.Request]
	// Sources enqueue objects.
	Sources []source.Source
}

// AddTo adds the controller to a manager.
func (c *Controller) AddTo(mgr ctrl.Manager) error {
	logger := mgr.GetLogger().WithValues("controller", c.Name)
	limiter := c.RateLimiter
	if limiter == nil {
		limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](c.FirstRetry, c.LastRetry)
	}
	running, err := crcontroller.New(c.Name, mgr, crcontroller.Options{
		Reconciler:              c.Reconciler,
		MaxConcurrentReconciles: c.Workers,
		LogConstructor: func(req *reconcile.Request) logr.Logger {
			if req == nil {
				return logger
			}
			return logger.WithValues(c.Object, req.Name)
		},
		RateLimiter: limiter,
	})
	if err != nil {
		return fmt.Errorf("creating the controller %s: %w", c.Name, err)
	}
	for _, s := range c.Sources {
		if err := running.Watch(s); err != nil {
			return fmt.Errorf("adding a source to the controller %s: %w", c.Name, err)
		}
	}
	return nil
}

// Changes returns a source that enqueues objects of a kind when they change, unless a predicate filters the change.
func Changes[T client.Object](c cache.Cache, kind T, which ...predicate.TypedPredicate[T]) source.Source {
	return source.Kind(c, kind, &handler.TypedEnqueueRequestForObject[T]{}, which...)
}
