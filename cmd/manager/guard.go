// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodegate/nodegate/internal/controller/guard"
	"github.com/nodegate/nodegate/internal/guard/eviction"
	"github.com/nodegate/nodegate/internal/guard/webhook"
	"github.com/nodegate/nodegate/internal/watch"
)

// newKeeper makes the keeper of the eviction guard's webhook. It runs only where webhooks are served; where they are not, it
// says so in the status of rules that guard.
func newKeeper(mgr manager.Manager, rules *watch.Rules, o *webhookOptions) *guard.Keeper {
	k := &guard.Keeper{Live: mgr.GetAPIReader(), Writer: mgr.GetClient(), Rules: rules.Set, Subscribe: rules.Subscribe, Clock: clock.RealClock{}}
	if o.enabled {
		k.Configuration = o.name
	}
	return k
}

// addEvictions adds what the leader does for the eviction guard: it keeps the webhook in step with the rules, and finishes the
// evictions of holds that have ended.
func addEvictions(mgr manager.Manager, keeper *guard.Keeper, rules *watch.Rules, recorder events.EventRecorder, o *webhookOptions) error {
	if !o.enabled {
		return nil
	}
	if err := mgr.Add(keeper); err != nil {
		return fmt.Errorf("adding the keeper of the eviction guard's webhook: %w", err)
	}
	evictions := &eviction.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Rules: rules.Set, Namespace: o.namespaceOrDefault(),
		Bypassed: keeper.Bypassed, Recorder: recorder, Clock: clock.RealClock{},
	}
	return evictions.SetupWithManager(mgr)
}

// guardHandler answers from this replica's caches, whether or not it leads.
func guardHandler(ctx context.Context, mgr manager.Manager, rules *watch.Rules, recorder events.EventRecorder, o *webhookOptions) (*webhook.Handler, error) {
	nodes, err := mgr.GetCache().GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	return &webhook.Handler{
		Nodes: mgr.GetCache(), Rules: rules.Set, Synced: func() bool { return rules.HasSynced() && nodes.HasSynced() },
		Namespace: o.namespaceOrDefault(), Recorder: recorder, Clock: clock.RealClock{},
	}, nil
}
