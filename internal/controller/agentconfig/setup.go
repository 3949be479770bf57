// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodegate/nodegate/internal/rulecache"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const (
	// settle is how long a change of the rules is left to be followed by others: an agent sees a ConfigMap's change within a
	// minute, so that many writes would help nobody.
	settle = 200 * time.Millisecond
	// firstRetry and lastRetry bound the delay between tries.
	firstRetry = 200 * time.Millisecond
	lastRetry  = time.Minute
)

// CacheOptions restrict a manager's cache of ConfigMaps to the one that is written: there is no right to read others.
func CacheOptions(key client.ObjectKey) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{
		key.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", key.Name)},
	}}
}

// SetupWithManager adds the controller to a manager. Only the leader runs it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, rules *rulecache.Cache) error {
	r.Rules = rules.Set
	c, err := controller.New("agentconfig", mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: 1,
		LogConstructor: func(*reconcile.Request) logr.Logger {
			return mgr.GetLogger().WithValues("controller", "agentconfig", "configMap", r.Key.String())
		},
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("creating the controller of the agents' configuration: %w", err)
	}
	if err := c.Watch(&rulesSource{rules: rules, request: reconcile.Request{NamespacedName: r.Key}}); err != nil {
		return fmt.Errorf("watching rules: %w", err)
	}
	stored := source.Kind(mgr.GetCache(), &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})
	if err := c.Watch(stored); err != nil {
		return fmt.Errorf("watching the agents' configuration: %w", err)
	}
	return nil
}

// rulesSource queues the ConfigMap once all rules are known, and whenever they change.
type rulesSource struct {
	rules   *rulecache.Cache
	request reconcile.Request
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Start implements source.Source.
func (s *rulesSource) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.queue = queue
	return nil
}

// WaitForSync implements source.SyncingSource: a configuration of half of the rules would take probes and checks away.
func (s *rulesSource) WaitForSync(ctx context.Context) error {
	if err := s.rules.WaitForSync(ctx); err != nil {
		return err
	}
	s.rules.Subscribe(func(*ruleset.Set) { s.queue.AddAfter(s.request, settle) })
	return nil
}
