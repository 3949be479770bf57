// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Rules compiles all rules, and serves them as one snapshot. It is safe for concurrent use.
type Rules struct {
	// KeyPrefixes are the prefixes of the keys that rules may have for taints and annotations. If empty, all are allowed.
	KeyPrefixes []string

	clock clock.PassiveClock

	synced func() bool

	// writing is held while a change is made and the subscribers are called, so that they see all changes in order.
	writing     sync.Mutex
	subscribers []func(*ruleset.Set)
	compiled    *ruleset.Set
	// reported are the rules whose status says that they are not in force.
	reported map[types.UID]bool
	// theirs are the rules of another controller, and foreign its taints. unread is true until they are known, if they
	// are read.
	theirs  map[string]foreignRule
	foreign ruleset.Foreign
	unread  atomic.Bool
	// assumed says that they could not be read since the start, so that foreign are the taints of all rules but those in
	// inForce, whose status says that they are in force or in dry-run, or said so when they had the same taint. In
	// dry-run, another controller may manage the taint: a rule whose dry-run ends is not among them.
	assumed bool
	inForce map[types.UID]bool
	// lookAgain reads another controller's rules again. It is nil if they are not read.
	lookAgain func()
	// listed are the UIDs of the rules that the AdmissionRules says are frozen. It is nil while there is no such object.
	listed sets.Set[string]

	served atomic.Pointer[served]
}

// served is the current snapshot, and why all its rules are frozen: because of the CRD, or because another controller
// runs. reported is the snapshot in which the rules are frozen, too, that the leader has frozen.
type served struct {
	set, reported *ruleset.Set
	frozen, other *ruleset.Problem
}

// NewRules returns an empty snapshot.
func NewRules(c clock.PassiveClock) *Rules {
	r := &Rules{clock: c, compiled: ruleset.NewSet(), reported: map[types.UID]bool{},
		inForce: map[types.UID]bool{}, synced: func() bool { return false }}
	r.served.Store(&served{set: ruleset.NewSet(), reported: ruleset.NewSet()})
	return r
}

// SetupWithCache watches the rules through an informer cache, whether or not this replica leads.
func (r *Rules) SetupWithCache(ctx context.Context, informers cache.Cache) error {
	synced, err := Follow(ctx, informers, &v1alpha1.NodeReadinessRule{}, r.put, r.drop)
	if err != nil {
		return err
	}
	r.synced = synced
	return nil
}

// HasSynced reports whether all rules that existed at the start are compiled, and another controller's are known.
func (r *Rules) HasSynced() bool { return r.synced() && !r.unread.Load() }

// WaitForSync waits until HasSynced or the end of the context.
func (r *Rules) WaitForSync(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return r.HasSynced(), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for rules: %w", err)
	}
	return nil
}

// Set returns the current snapshot.
func (r *Rules) Set() *ruleset.Set { return r.served.Load().set }

// Reported returns the current snapshot for webhooks. Every replica serves them, and only the leader gathers evidence.
// So a rule that the leader cannot put in force, for example because it cannot read the rule's evidence, is frozen as
// the leader has written into the AdmissionRules, or by its status while there is no such object.
func (r *Rules) Reported() *ruleset.Set { return r.served.Load().reported }

// Frozen returns the problem that the served CRD is not ours, or nil.
func (r *Rules) Frozen() *ruleset.Problem { return r.served.Load().frozen }

// OtherController returns the problem that another controller acts on the rules, or nil.
func (r *Rules) OtherController() *ruleset.Problem { return r.served.Load().other }

// Subscribe calls a function with the current snapshot, now and after each change. Calls are in order, never
// concurrent.
func (r *Rules) Subscribe(f func(*ruleset.Set)) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.subscribers = append(r.subscribers, f)
	f(r.Set())
}

// After runs a function later, never before After has returned.
type After func(time.Duration, func())

// settled are the times after which the rules are read again once the served CRD is ours. The first gives the API
// servers time to serve it. The second is for an API server that took longer.
var settled = []time.Duration{5 * time.Second, 30 * time.Second}

// thaw reads the rules again after a foreign CRD is gone, and then unfreezes them. The informer does not notice that
// pruned fields are back, because neither generation nor resource version change.
func (r *Rules) thaw(ctx context.Context, live client.Reader, after After, frozen *ruleset.Problem,
	waits []time.Duration) {
	after(waits[0], func() {
		if ctx.Err() != nil {
			return
		}
		list := &v1alpha1.NodeReadinessRuleList{}
		if err := live.List(ctx, list); err != nil {
			log.FromContext(ctx).Error(err, "Cannot read the rules, although their CRD is served now")
			r.thaw(ctx, live, after, frozen, waits)
			return
		}
		if r.reread(list.Items, frozen) && len(waits) > 1 {
			r.thaw(ctx, live, after, nil, waits[1:])
		}
	})
}

// reread compiles rules from a live read, and ends the freeze. If the rules are frozen for another reason by now, it
// does nothing and returns false.
func (r *Rules) reread(rules []v1alpha1.NodeReadinessRule, frozen *ruleset.Problem) bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.Frozen() != frozen {
		return false
	}
	compiled := r.compiled
	for i := range rules {
		before := compiled.Rule(rules[i].UID)
		if before == nil || rules[i].Generation < before.Generation {
			continue // the informer has a newer version than the list
		}
		if after := ruleset.Compile(&rules[i], before, r.clock.Now()); !before.Equivalent(after) {
			compiled = compiled.With(after)
		}
	}
	if compiled != r.compiled || frozen != nil {
		r.serve(compiled, nil, r.OtherController())
	}
	return true
}

// freeze freezes all rules because the served CRD is not ours.
func (r *Rules) freeze(p *ruleset.Problem) {
	r.writing.Lock()
	defer r.writing.Unlock()
	now := *r.served.Load()
	if now.frozen != nil && *p == *now.frozen {
		now.frozen = p // a thaw compares pointers: one that has begun must not end this freeze
		r.served.Store(&now)
		return
	}
	r.serve(r.compiled, p, now.other)
}

// giveWay freezes all rules because another controller acts on them. With nil it unfreezes them. It reports whether
// anything has changed.
func (r *Rules) giveWay(other *ruleset.Problem) bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	if (other == nil) == (r.OtherController() == nil) {
		return false
	}
	r.serve(r.compiled, r.Frozen(), other)
	return true
}

// setForeign freezes the rules whose taints another controller manages, and unfreezes the others.
func (r *Rules) setForeign(theirs map[string]foreignRule) {
	r.writing.Lock()
	defer r.writing.Unlock()
	changed := r.assumed || !maps.Equal(foreignTo(r.compiled, theirs), r.foreign)
	if r.theirs, r.assumed = theirs, false; changed {
		r.serve(r.compiled, r.Frozen(), r.OtherController())
	}
	r.unread.Store(false)
}

// assumeForeign makes the rules act that were in force when the process before this one ended, although another
// controller's rules cannot be read: its taints were not theirs then. All other rules are frozen.
func (r *Rules) assumeForeign() {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.unread.Load() && r.synced() {
		r.assumed = true
		r.serve(r.compiled, r.Frozen(), r.OtherController())
		r.unread.Store(false)
	}
}

// AwaitForeign makes the rules wait until another controller's rules have been read. lookAgain reads them before a
// change of a rule counts.
func (r *Rules) AwaitForeign(lookAgain func()) {
	r.unread.Store(true)
	r.lookAgain = lookAgain
}

// handsOver looks at another controller's rules before a change of a rule with a taint counts. A user who hands a taint
// over creates the other controller's rule, and then deletes or edits this one: the deletion may be seen first.
func (r *Rules) handsOver(before *ruleset.Rule, tainted, changed bool) {
	if r.lookAgain != nil && !r.unread.Load() && changed && (tainted || before != nil && before.Taint != nil) {
		r.lookAgain()
	}
}

// known returns the rule with a UID, or nil.
func (r *Rules) known(uid types.UID) *ruleset.Rule {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.compiled.Rule(uid)
}

func (r *Rules) put(rule *v1alpha1.NodeReadinessRule) {
	former := r.known(rule.UID)
	r.handsOver(former, rule.Spec.Taint != nil, former == nil && (r.synced() || !rule.DeletionTimestamp.IsZero()) ||
		former != nil && former.Generation != rule.Generation)
	r.writing.Lock()
	defer r.writing.Unlock()
	before := r.compiled.Rule(rule.UID)
	after := ruleset.Compile(rule, before, r.clock.Now())
	refused := ruleset.ReportedNotInForce(rule)
	same := r.reported[rule.UID] == refused
	r.reported[rule.UID] = refused
	inForce := ruleset.ReportedInForce(rule) ||
		r.inForce[rule.UID] && after.SameTaint(before) && (after.Mode != ruleset.Enforced ||
			!refused && before.Mode != ruleset.DryRun)
	trust := r.assumed && r.inForce[rule.UID] != inForce
	r.inForce[rule.UID] = inForce
	if !trust && before != nil && before.Equivalent(after) { // only its status has changed
		if !same {
			r.report()
		}
		return
	}
	r.serve(r.compiled.With(after), r.Frozen(), r.OtherController())
}

func (r *Rules) drop(rule *v1alpha1.NodeReadinessRule) {
	former := r.known(rule.UID)
	r.handsOver(former, false, former != nil && former.Mode != ruleset.Deleting)
	r.writing.Lock()
	defer r.writing.Unlock()
	delete(r.reported, rule.UID)
	delete(r.inForce, rule.UID)
	r.serve(r.compiled.Without(rule.UID), r.Frozen(), r.OtherController())
}

// serve makes a set the current snapshot, and calls the subscribers. The caller holds r.writing.
func (r *Rules) serve(compiled *ruleset.Set, frozen, other *ruleset.Problem) {
	before := r.Set()
	if r.foreign = foreignTo(compiled, r.theirs); r.assumed {
		r.foreign = compiled.AssumedForeign(func(rule *ruleset.Rule) bool { return r.inForce[rule.UID] })
	}
	compiled = compiled.Yield(r.foreign, r.clock.Now())
	set := compiled.Resolve(ruleset.Known{KeyPrefixes: r.KeyPrefixes, Foreign: r.foreign}, before)
	if problem := cmp.Or(other, frozen); problem != nil {
		rules := make([]*ruleset.Rule, 0, len(set.All()))
		for _, rule := range set.All() { // with their other problems: no override ends the claim of a foreign taint
			rules = append(rules, rule.FreezeLike(before.Rule(rule.UID), *problem))
		}
		set = ruleset.NewSet(rules...).WithForeign(r.foreign)
	}
	r.compiled = compiled
	r.served.Store(&served{set: set, reported: r.frozenByLeader(set), frozen: frozen, other: other})
	for _, f := range r.subscribers {
		f(set)
	}
}

// freezeListed freezes the rules that are listed, for webhooks. With nil, those are frozen whose status says so.
func (r *Rules) freezeListed(uids sets.Set[string]) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.listed = uids
	r.report()
}

// report makes the snapshot for webhooks. The caller holds r.writing.
func (r *Rules) report() {
	now := *r.served.Load()
	now.reported = r.frozenByLeader(now.set)
	r.served.Store(&now)
}

// frozenByLeader returns a set in which the rules are frozen that the leader has frozen. The caller holds r.writing.
func (r *Rules) frozenByLeader(set *ruleset.Set) *ruleset.Set {
	rules := slices.Clone(set.All())
	for i, rule := range rules {
		frozen := r.reported[rule.UID]
		if r.listed != nil {
			frozen = r.listed.Has(string(rule.UID))
		}
		if rule.Mode == ruleset.Enforced && frozen {
			rules[i] = rule.Freeze(ruleset.Problem{Reason: evidence.ReasonInvalid, Message: "the leader has frozen it"})
		}
	}
	return ruleset.NewSet(rules...)
}
