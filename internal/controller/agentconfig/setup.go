// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agentconfig

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodegate/nodegate/internal/controller"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/watch"
)

// settle is how long the controller waits for more changes of rules before it writes. An agent sees a change of the
// ConfigMap only within a minute, so faster writes would not help.
const settle = 200 * time.Millisecond

// SetupWithManager adds the controller to a manager. Only the leader runs it. It makes a client of its own, because the
// manager's client waits for its cache after a write.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, rules *watch.Rules) error {
	var err error
	if r.Client, err = client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(),
		HTTPClient: mgr.GetHTTPClient()}); err != nil {
		return fmt.Errorf("creating a client for the agents' configuration: %w", err)
	}
	r.Rules = rules.Set
	clients, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating a client for the agents' configuration: %w", err)
	}
	stored := source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		return r.watch(ctx, clients, queue)
	})
	c := controller.Controller{Name: "agentconfig", Object: "configMap", Reconciler: r, Workers: 1,
		FirstRetry: 200 * time.Millisecond, LastRetry: time.Minute, Sources: []source.Source{
			&rulesSource{rules: rules, request: reconcile.Request{NamespacedName: r.Key}}, stored,
		}}
	return c.AddTo(mgr)
}

// watch enqueues the ConfigMap when it or the agents' ServiceAccount has changed. It has informers of its own, because
// all controllers wait for the manager's cache. Without the permission to watch these objects, the operator continues
// and does not notice their changes.
func (r *Reconciler) watch(ctx context.Context, clients kubernetes.Interface,
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	for _, one := range []struct {
		resource string
		key      client.ObjectKey
		object   runtime.Object
	}{
		{"configmaps", r.Key, &corev1.ConfigMap{}},
		{"serviceaccounts", r.Account, &corev1.ServiceAccount{}},
	} {
		lw := toolscache.NewListWatchFromClient(clients.CoreV1().RESTClient(), one.resource, one.key.Namespace,
			fields.OneTermEqualSelector("metadata.name", one.key.Name))
		informer := watch.NewInformer(lw, one.object, 0, nil)
		changed := func() { queue.Add(reconcile.Request{NamespacedName: r.Key}) }
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(_ any, initial bool) {
				if !initial {
					changed()
				}
			},
			UpdateFunc: func(any, any) { changed() },
			DeleteFunc: func(any) { changed() },
		}); err != nil {
			return fmt.Errorf("watching the agents' %s: %w", one.resource, err)
		}
		go informer.RunWithContext(ctx)
	}
	return nil
}

// rulesSource enqueues the ConfigMap once all rules are known, and whenever they change.
type rulesSource struct {
	rules   *watch.Rules
	request reconcile.Request
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Start implements source.Source.
func (s *rulesSource) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.queue = queue
	return nil
}

// WaitForSync implements source.SyncingSource. A configuration of half of the rules would remove probes and checks.
func (s *rulesSource) WaitForSync(ctx context.Context) error {
	if err := s.rules.WaitForSync(ctx); err != nil {
		return err
	}
	s.rules.Subscribe(func(*ruleset.Set) { s.queue.AddAfter(s.request, settle) })
	return nil
}
