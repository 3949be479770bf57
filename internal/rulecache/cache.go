// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rulecache

import (
	"context"
	"fmt"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Cache is the snapshot of all rules. It is safe for concurrent use.
type Cache struct {
	clock clock.PassiveClock

	synced func() bool

	// writing is held by whoever changes the rest, also while the subscribers are told: they see every change in order.
	writing     sync.Mutex
	subscribers []func(*ruleset.Set)

	mu       sync.Mutex
	compiled *ruleset.Set
	frozen   *ruleset.Problem
	served   *ruleset.Set
}

// New is an empty cache.
func New(c clock.PassiveClock) *Cache {
	return &Cache{clock: c, compiled: ruleset.NewSet(), served: ruleset.NewSet(), synced: func() bool { return false }}
}

// SetupWithCache follows the rules in an informer cache, whether or not this replica leads.
func (c *Cache) SetupWithCache(ctx context.Context, informers cache.Cache) error {
	informer, err := informers.GetInformer(ctx, &v1alpha1.NodeReadinessRule{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching rules: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.put(obj) },
		UpdateFunc: func(_, obj any) { c.put(obj) },
		DeleteFunc: func(obj any) { c.drop(obj) },
	})
	if err != nil {
		return fmt.Errorf("watching rules: %w", err)
	}
	c.synced = registration.HasSynced
	return nil
}

// HasSynced reports whether all rules that there were at the start have been compiled.
func (c *Cache) HasSynced() bool { return c.synced() }

// WaitForSync waits until all rules that there were at the start have been compiled.
func (c *Cache) WaitForSync(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !c.synced() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for rules: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Set is the present snapshot.
func (c *Cache) Set() *ruleset.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served
}

// Subscribe calls a function with the present snapshot, now and after each change, never concurrently and in order.
func (c *Cache) Subscribe(f func(*ruleset.Set)) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.subscribers = append(c.subscribers, f)
	f(c.Set())
}

// Freeze freezes all rules for a reason that is not theirs, or with nil ends that.
func (c *Cache) Freeze(p *ruleset.Problem) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if (p == nil) == (c.frozen == nil) && (p == nil || *p == *c.frozen) {
		return
	}
	c.serve(c.compiled, p)
}

// Frozen says why all rules are frozen; nil if they are not.
func (c *Cache) Frozen() *ruleset.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen
}

func (c *Cache) put(obj any) {
	rule, ok := obj.(*v1alpha1.NodeReadinessRule)
	if !ok {
		return
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	before := c.compiled.Rule(rule.UID)
	after := ruleset.Compile(rule, before, c.clock.Now())
	if before != nil && before.Equivalent(after) {
		return // its status has changed, nothing else
	}
	c.serve(c.compiled.With(after), c.frozen)
}

func (c *Cache) drop(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	rule, ok := obj.(*v1alpha1.NodeReadinessRule)
	if !ok {
		return
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.serve(c.compiled.Without(rule.UID), c.frozen)
}

// serve makes a set the present one, and tells the subscribers. The caller holds c.writing.
func (c *Cache) serve(compiled *ruleset.Set, frozen *ruleset.Problem) {
	before := c.Set()
	served := compiled.BreakCycles(before)
	if frozen != nil {
		rules := make([]*ruleset.Rule, 0, len(compiled.All()))
		for _, r := range compiled.All() {
			rules = append(rules, r.FreezeLike(before.Rule(r.UID), *frozen))
		}
		served = ruleset.NewSet(rules...)
	}
	c.mu.Lock()
	c.compiled, c.frozen, c.served = compiled, frozen, served
	c.mu.Unlock()
	for _, f := range c.subscribers {
		f(served)
	}
}
