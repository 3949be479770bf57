// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/watch"
)

const (
	// quietInterval is how long no rule must have changed before all nodes of changed rules are enqueued. Rules of one
	// file arrive one after another, and most nodes get one patch for all of them.
	quietInterval = 250 * time.Millisecond
	// firstNodes is how many nodes of the first change are enqueued at once. They keep the API server busy for an
	// interval; more of them would be reconciled once more if other rules follow.
	firstNodes = 100
	// maxIntervals is after how many intervals the nodes are enqueued, although rules still change.
	maxIntervals = 8
	// rulesRetry is the delay before rules are put in force again after that has failed.
	rulesRetry = time.Second
)

// RulesSource is a source of the node controller. It puts the rules in force before the first node is reconciled, and
// at once after each change. It enqueues the first nodes that the first change concerns at once, and all others when no
// rule changes any more, or after two seconds, behind all other nodes. It implements sources.Listener.
type RulesSource struct {
	Rules *watch.Rules
	Queue *Queue
	// Nodes waits until the nodes are cached.
	Nodes func(context.Context) bool
	// SetRules puts rules in force, and returns the nodes that a changed rule concerns.
	SetRules func(context.Context, *ruleset.Set) ([]string, error)
	// Current returns the rules that are in force.
	Current func() *ruleset.Set
	// After runs a function that may block, concurrently or later, never before After has returned.
	After watch.After

	ctx     context.Context
	pending atomic.Bool // putInForce is about to be called
	begun   atomic.Bool // rules are in force
	mu      sync.Mutex
	set     *ruleset.Set     // the last one that Rules reported
	waiting sets.Set[string] // nodes that wait until no rule changes; nil if none has changed for an interval
	changed bool             // a rule has changed in this interval
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
		first := s.set == nil
		s.set = set
		names := s.putInForce()
		if first { // the controller has queued all nodes as well, and merges them
			s.Queue.AddLow(names...)
			return
		}
		s.enqueueSoon(names)
	})
}

// putInForce puts the latest set in force, and returns the nodes that changed rules concern. The caller holds s.mu.
func (s *RulesSource) putInForce() []string {
	names, err := s.SetRules(s.ctx, s.set)
	switch {
	case err == nil:
		s.begun.Store(true)
	case s.ctx.Err() == nil:
		log.FromContext(s.ctx).Error(err, "Cannot apply changed rules, retrying")
		s.putInForceAfter(rulesRetry)
	}
	return names
}

// InForce returns the rules by which nodes are reconciled, or nil if none have been put in force yet.
func (s *RulesSource) InForce() *ruleset.Set {
	if !s.begun.Load() {
		return nil
	}
	return s.Current()
}

// enqueueSoon enqueues nodes at once, and when no rule changes any more. The caller holds s.mu.
func (s *RulesSource) enqueueSoon(names []string) {
	if len(names) == 0 {
		return
	}
	if s.waiting == nil {
		first := min(firstNodes, len(names))
		s.waiting = sets.New(names[first:]...)
		s.After(quietInterval, func() { s.enqueue(1) })
		s.Queue.AddLow(names[:first]...)
		return
	}
	s.waiting.Insert(names...)
	s.changed = true
}

// enqueue enqueues the nodes of changed rules, or waits for another interval. It is called after the given number of
// intervals.
func (s *RulesSource) enqueue(intervals int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	if s.changed && intervals < maxIntervals {
		s.changed = false
		s.After(quietInterval, func() { s.enqueue(intervals + 1) })
		return
	}
	s.Queue.AddLow(sets.List(s.waiting)...)
	s.waiting, s.changed = nil, false
}

// NodesChanged implements sources.Listener.
func (s *RulesSource) NodesChanged(nodes ...string) { s.Queue.Add(nodes...) }

// AvailabilityChanged implements sources.Listener.
func (s *RulesSource) AvailabilityChanged() { s.putInForceAfter(0) }

// putInForceAfter puts the latest set in force after a delay, and enqueues the nodes that changed rules concern.
func (s *RulesSource) putInForceAfter(delay time.Duration) {
	if s.pending.Swap(true) {
		return
	}
	s.After(delay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending.Store(false)
		if s.ctx.Err() == nil {
			s.enqueueSoon(s.putInForce())
		}
	})
}
