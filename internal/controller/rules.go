// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/watch"
)

// RulesSource is a source of the node controller. It puts the rules in force before the first node is reconciled, and
// enqueues the nodes that a changed rule concerns behind all others. It implements evidence.Listener.
type RulesSource struct {
	Rules *watch.Rules
	Queue *Queue
	// Nodes waits until the nodes are cached.
	Nodes func(context.Context) bool
	// SetRules puts rules in force, and returns the nodes that a changed rule concerns.
	SetRules func(context.Context, *ruleset.Set) ([]string, error)
	// Go runs a function that may block, concurrently or later, never before Go has returned.
	Go func(func())

	ctx     context.Context
	pending atomic.Bool // putInForce is about to be called
	mu      sync.Mutex
	set     *ruleset.Set // the last one that Rules reported
}

// Start implements source.Source.
func (s *RulesSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.ctx = ctx
	return s.Queue.Start(ctx, queue)
}

// WaitForSync implements source.SyncingSource: the counts of every limit are complete before the first node is
// reconciled.
func (s *RulesSource) WaitForSync(ctx context.Context) error {
	if !s.Nodes(ctx) {
		return fmt.Errorf("waiting for the caches: %w", ctx.Err())
	}
	if err := s.Rules.WaitForSync(ctx); err != nil {
		return err
	}
	s.Begin()
	return nil
}

// Begin puts the rules in force, now and after each change. Before that, the source must have been started, and nodes
// and rules must have synced.
func (s *RulesSource) Begin() {
	s.Rules.Subscribe(func(set *ruleset.Set) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set = set
		s.putInForce()
	})
}

// putInForce puts the latest set in force. The caller holds s.mu.
func (s *RulesSource) putInForce() {
	names, err := s.SetRules(s.ctx, s.set)
	if err != nil {
		if s.ctx.Err() == nil {
			log.FromContext(s.ctx).Error(err, "Cannot apply changed rules")
		}
		return
	}
	s.Queue.AddLow(names...)
}

// NodesChanged implements evidence.Listener.
func (s *RulesSource) NodesChanged(nodes ...string) { s.Queue.Add(nodes...) }

// AvailabilityChanged implements evidence.Listener.
func (s *RulesSource) AvailabilityChanged() {
	if s.pending.Swap(true) {
		return
	}
	s.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending.Store(false)
		if s.ctx.Err() == nil {
			s.putInForce()
		}
	})
}
