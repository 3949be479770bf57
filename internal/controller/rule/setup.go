// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/controller"
)

const (
	// firstRetry and lastRetry bound the delay between tries of a rule that failed.
	firstRetry = 20 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// SetupWithManager adds the controller to a manager. Rules are queued when they change, and through the given queue
// when the fleet has something to report about them.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, queue *controller.Queue, workers int) error {
	c, err := crcontroller.New("nodereadinessrule", mgr, crcontroller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		LogConstructor: func(req *reconcile.Request) logr.Logger {
			logger := mgr.GetLogger().WithValues("controller", "rule")
			if req == nil {
				return logger
			}
			return logger.WithValues("rule", req.Name)
		},
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("creating the rule controller: %w", err)
	}
	if err := c.Watch(queue); err != nil {
		return fmt.Errorf("watching the fleet: %w", err)
	}
	rules := source.Kind(mgr.GetCache(), &v1alpha1.NodeReadinessRule{},
		&handler.TypedEnqueueRequestForObject[*v1alpha1.NodeReadinessRule]{})
	if err := c.Watch(rules); err != nil {
		return fmt.Errorf("watching rules: %w", err)
	}
	return nil
}
