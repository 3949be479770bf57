// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Rules is the snapshot of all rules. It is safe for concurrent use.
type Rules struct {
	clock clock.PassiveClock

	synced func() bool

	// writing is held while the rest changes and the subscribers are called, so that they see every change in order.
	writing     sync.Mutex
	subscribers []func(*ruleset.Set)

	mu       sync.Mutex
	compiled *ruleset.Set
	frozen   *ruleset.Problem // because of the CRD
	other    *ruleset.Problem // because another controller runs
	served   *ruleset.Set
}

// NewRules is an empty cache.
func NewRules(c clock.PassiveClock) *Rules {
	return &Rules{clock: c, compiled: ruleset.NewSet(), served: ruleset.NewSet(), synced: func() bool { return false }}
}

// SetupWithCache follows the rules in an informer cache, whether or not this replica leads.
func (r *Rules) SetupWithCache(ctx context.Context, informers cache.Cache) error {
	informer, err := informers.GetInformer(ctx, &v1alpha1.NodeReadinessRule{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching rules: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.put(obj) },
		UpdateFunc: func(_, obj any) { r.put(obj) },
		DeleteFunc: func(obj any) { r.drop(obj) },
	})
	if err != nil {
		return fmt.Errorf("watching rules: %w", err)
	}
	r.synced = registration.HasSynced
	return nil
}

// HasSynced reports whether all rules that there were at the start have been compiled.
func (r *Rules) HasSynced() bool { return r.synced() }

// WaitForSync waits until all rules that there were at the start have been compiled.
func (r *Rules) WaitForSync(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !r.synced() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for rules: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Set is the present snapshot.
func (r *Rules) Set() *ruleset.Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.served
}

// Subscribe calls a function with the present snapshot, now and after each change, never concurrently and in order.
func (r *Rules) Subscribe(f func(*ruleset.Set)) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.subscribers = append(r.subscribers, f)
	f(r.Set())
}

// After runs a function when a time has passed, never before it returns.
type After func(time.Duration, func())

// settled are the times after which the rules are read again when the CRD is ours again. The first lets the API servers
// serve it; the later one covers an API server that was late.
var settled = []time.Duration{5 * time.Second, 30 * time.Second}

// thaw ends a freeze because of a foreign CRD, when the rules have been read again. An informer does not notice that
// pruned fields are back, since neither generation nor resource version change.
func (r *Rules) thaw(ctx context.Context, live client.Reader, after After, frozen *ruleset.Problem,
	waits []time.Duration) {
	after(waits[0], func() {
		if ctx.Err() != nil {
			return
		}
		list := &v1alpha1.NodeReadinessRuleList{}
		if err := live.List(ctx, list); err != nil {
			log.FromContext(ctx).Error(err, "Reading the rules again now that their CustomResourceDefinition is served")
			r.thaw(ctx, live, after, frozen, waits)
			return
		}
		if r.reread(list.Items, frozen) && len(waits) > 1 {
			r.thaw(ctx, live, after, nil, waits[1:])
		}
	})
}

// reread compiles rules from a live read, and ends the freeze. It reports false, and does nothing, if the rules are
// frozen for another reason by now.
func (r *Rules) reread(rules []v1alpha1.NodeReadinessRule, frozen *ruleset.Problem) bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.frozen != frozen {
		return false
	}
	compiled := r.compiled
	for i := range rules {
		before := compiled.Rule(rules[i].UID)
		if after := ruleset.Compile(&rules[i], before, r.clock.Now()); before != nil && !before.Equivalent(after) {
			compiled = compiled.With(after)
		}
	}
	if compiled != r.compiled || frozen != nil {
		r.serve(compiled, nil)
	}
	return true
}

// Freeze freezes all rules for a reason that is not theirs, or with nil ends that.
func (r *Rules) Freeze(p *ruleset.Problem) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if p == nil && r.frozen == nil {
		return
	}
	if p != nil && r.frozen != nil && *p == *r.frozen {
		r.mu.Lock()
		r.frozen = p // another pointer: a thaw that is under way does not apply any more
		r.mu.Unlock()
		return
	}
	r.serve(r.compiled, p)
}

// giveWay freezes all rules while another controller acts on them, or with nil ends that. It reports whether that is
// new.
func (r *Rules) giveWay(other *ruleset.Problem) bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	if (other == nil) == (r.other == nil) {
		return false
	}
	r.mu.Lock()
	r.other = other
	r.mu.Unlock()
	r.serve(r.compiled, r.frozen)
	return true
}

// OtherController says which other controller acts on the rules; nil if there is none.
func (r *Rules) OtherController() *ruleset.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.other
}

// Frozen says which CRD is served instead of ours; nil if it is ours.
func (r *Rules) Frozen() *ruleset.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.frozen
}

func (r *Rules) put(obj any) {
	rule, ok := obj.(*v1alpha1.NodeReadinessRule)
	if !ok {
		return
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	before := r.compiled.Rule(rule.UID)
	after := ruleset.Compile(rule, before, r.clock.Now())
	if before != nil && before.Equivalent(after) {
		return // its status has changed, nothing else
	}
	r.serve(r.compiled.With(after), r.frozen)
}

func (r *Rules) drop(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	rule, ok := obj.(*v1alpha1.NodeReadinessRule)
	if !ok {
		return
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	r.serve(r.compiled.Without(rule.UID), r.frozen)
}

// serve makes a set the present one, and tells the subscribers. The caller holds r.writing.
func (r *Rules) serve(compiled *ruleset.Set, frozen *ruleset.Problem) {
	before := r.Set()
	served := compiled.FreezeInvalid(before).FreezeDependents(before)
	if problem := cmp.Or(r.other, frozen); problem != nil {
		rules := make([]*ruleset.Rule, 0, len(compiled.All()))
		for _, rule := range compiled.All() {
			rules = append(rules, rule.FreezeLike(before.Rule(rule.UID), *problem))
		}
		served = ruleset.NewSet(rules...)
	}
	r.mu.Lock()
	r.compiled, r.frozen, r.served = compiled, frozen, served
	r.mu.Unlock()
	for _, f := range r.subscribers {
		f(served)
	}
}
