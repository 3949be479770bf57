// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Entry is the decision about one node under one rule.
type Entry struct {
	// Rule is the version of the rule that the decision is from.
	Rule *ruleset.Rule
	// Current is the state of the node under the rule.
	Current *nodeview.State
	Outcome
	Missing
	// Observed is from the last verdict, and so is HeartbeatCounts. It is also set while the annotations are full.
	Observed        readiness.Observed
	HeartbeatCounts bool
	// Expired is whether the node waits for its replacement.
	Expired bool
	// Unwritten says of a write that has failed that certainly nothing was written.
	Unwritten bool
	// NoRoom says that the annotations have no room for the record of a claim, so that no write has the claim.
	NoRoom bool

	pending bool   // the node was not evaluated by this version of the rule; the Outcome is that of the version before
	changed uint32 // of a pending entry: when that Outcome began, or 0
}

// Listener receives changes. Its methods are called without a lock, and must not block.
type Listener interface {
	// RuleChanged is called when the status of a rule may have changed.
	RuleChanged(name string)
	// Enqueue is called with waiting nodes that maxUnavailable now allows to be tainted.
	Enqueue(nodes []string)
}

// Fleet tracks the verdict of every rule on every node. It is safe for concurrent use.
//
// Nodes are numbered, and each rule has a slice with one pair of 32 bytes for each node. What a status says about a
// node is the same for many nodes, and is stored once for each rule.
type Fleet struct {
	listener Listener
	now      func() time.Time
	snapshot atomic.Pointer[snapshot]
	// awaiting holds the names of the nodes on which a heartbeat alone may change a verdict, or an annotation of any
	// client a decision.
	awaiting sync.Map

	mu    sync.Mutex
	rules []*ruleState // by the index of the snapshot
	pass  int          // the number of the last Record
	// statuses are those of Restore, until the next SetRules.
	statuses map[types.UID]*v1alpha1.NodeReadinessRuleStatus
	nodes
}

// snapshot is a set of rules, with the index of each rule in the fleet's slices.
type snapshot struct {
	set   *ruleset.Set
	index map[types.UID]int
}

// New returns an empty fleet. The function tells the time by the API server's clock: times of limits are in the status
// of rules, and the next leader goes on by them.
func New(listener Listener, now func() time.Time) *Fleet {
	f := &Fleet{listener: listener, now: now, nodes: nodes{number: map[string]int32{}}}
	f.snapshot.Store(&snapshot{set: ruleset.NewSet()})
	return f
}

// Rules returns the snapshot of rules for decisions. It changes together with the counts of the limits, so that a
// decision by a new rule never sees incomplete counts.
func (f *Fleet) Rules() *ruleset.Set { return f.snapshot.Load().set }

// state returns the state of a rule, or nil if the rule is not known. The caller holds f.mu.
func (f *Fleet) state(rule types.UID) *ruleState {
	if i, ok := f.snapshot.Load().index[rule]; ok {
		return f.rules[i]
	}
	return nil
}

// Rule returns the version of a rule that decisions are made by, or nil if the rule is not known, and the number of
// nodes without a decision by it. The listener receives all changes from now on.
func (f *Fleet) Rule(uid types.UID) (rule *ruleset.Rule, pending int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state := f.state(uid); state != nil {
		state.told = false
		return state.rule, len(state.pending)
	}
	return nil, 0
}

// Mute stops calls of RuleChanged for a rule until Rule is called again, because the caller comes back by itself.
func (f *Fleet) Mute(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state := f.state(uid); state != nil {
		state.told = true
	}
}

// SetRules replaces the snapshot. For each rule that is new or has changed, it reads the state of all nodes before any
// decision is made by that rule. It returns the names of the nodes that such a rule concerns, or concerned before. The
// caller enqueues them.
func (f *Fleet) SetRules(set *ruleset.Set, nodes []*corev1.Node, now time.Time) []string {
	f.mu.Lock()
	changed, enqueue := f.addAll(nodes, now)
	affected := make([]bool, len(f.names))
	for _, state := range f.rules {
		if set.Rule(state.rule.UID) == nil {
			state.concerned(affected)
			changed = append(changed, state.rule.Name)
		}
	}
	next := &snapshot{set: set, index: make(map[types.UID]int, len(set.All()))}
	rules := make([]*ruleState, 0, len(set.All()))
	for i, rule := range set.All() {
		state := f.state(rule.UID)
		if state == nil || state.rule != rule {
			before := state
			state = f.read(rule, before, nodes, now)
			state.concerned(affected)
			if before != nil {
				before.concerned(affected)
			}
			changed = append(changed, rule.Name)
		}
		next.index[rule.UID] = i
		rules = append(rules, state)
	}
	f.rules, f.statuses = rules, nil
	f.snapshot.Store(next)
	var names []string
	for _, n := range f.byName {
		if affected[n] {
			names = append(names, f.names[n])
		}
	}
	f.mu.Unlock()
	f.tell(changed, enqueue)
	return names
}

// Records returns the number of the last Record.
func (f *Fleet) Records() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pass
}

// RecordedSince returns the names of the nodes with a Record after the one with a number.
func (f *Fleet) RecordedSince(record int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, n := range f.byName {
		if f.recorded[n] > record {
			names = append(names, f.names[n])
		}
	}
	return names
}

// read builds the state of a rule from all nodes. before is its previous state, or nil for a new rule. What was said
// about a node before stays until the node is evaluated: otherwise each edit of a rule would look like an outage.
func (f *Fleet) read(rule *ruleset.Rule, before *ruleState, nodes []*corev1.Node, now time.Time) *ruleState {
	state := newRuleState(rule, f)
	kept := before != nil && sameEvidence(before.rule.Spec, rule.Spec)
	thawed := kept && before.rule.Mode == ruleset.Frozen && rule.Mode != ruleset.Frozen // then all windows begin
	pending := Entry{Rule: rule, Outcome: Outcome{State: v1alpha1.NodeStatePending}, pending: true}
	if rule.JustInForce {
		pending.Observed.Since, pending.Observed.Assumed = rule.InForceSince, true // what is missing now was missing then
	}
	var current nodeview.State
	for _, node := range nodes {
		current = nodeview.StateOf(rule, node, now)
		if !current.Concerns(rule, node) {
			continue
		}
		n, e := f.number[node.Name], pending
		e.Current, e.Present = &current, current.Present
		if old := before.at(n); old.outcome != none {
			if former := &before.outcomes[old.outcome]; former.matches {
				e.Outcome, e.Missing, e.changed = former.Outcome, former.Missing, old.changed
			}
			seen := old.observed()
			if e.HeartbeatCounts, e.Observed.Watched = old.heartbeat, seen.Watched; kept {
				e.Observed = seen
			}
			e.Observed.Unread = e.Observed.Unread || thawed
			if since, held := before.held[n]; held {
				state.held[n] = since
			}
		}
		state.put(n, node.ResourceVersion, &e, e.changed == 0, now)
	}
	if before != nil {
		state.limit.Inherit(before.limit, before.rule.SelectorHash == rule.SelectorHash)
		if before.readyAt.After(state.readyAt) {
			state.readyAt = before.readyAt
		}
	} else {
		state.restore(f.statuses[rule.UID], nodes)
	}
	return state
}

// sameEvidence reports whether two versions of a rule require the same. If not, since when the former held says nothing
// about the latter.
func sameEvidence(a, b *v1alpha1.NodeReadinessRuleSpec) bool {
	return a == b || a.ConditionPolicy == b.ConditionPolicy && equality.Semantic.DeepEqual(a.Conditions, b.Conditions) &&
		equality.Semantic.DeepEqual(a.Requirements, b.Requirements)
}

// Look is the input of a reconcile of one node, read under one lock.
type Look struct {
	// Rules are the rules for the decision.
	Rules *ruleset.Set
	index map[types.UID]int
	pairs []pair // of the node, by the rule's index; empty for an unknown node
}

// Look reads what is known about a node.
func (f *Fleet) Look(node *corev1.Node) Look {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.snapshot.Load()
	l := Look{Rules: s.set, index: s.index}
	n, ok := f.number[node.Name]
	if !ok || f.uids[n] != node.UID {
		return l
	}
	l.pairs = make([]pair, len(f.rules))
	for i, state := range f.rules {
		l.pairs[i] = state.at(n)
	}
	return l
}

// Observed returns what this process has observed before about a rule on the node.
func (l *Look) Observed(rule types.UID) readiness.Observed {
	if i, ok := l.index[rule]; ok && i < len(l.pairs) && l.pairs[i].outcome != none {
		return l.pairs[i].observed()
	}
	return readiness.Observed{}
}

// HeartbeatCounts reports whether a heartbeat alone may change a verdict on a node, or an annotation of any client a
// decision.
func (f *Fleet) HeartbeatCounts(node string) bool {
	_, ok := f.awaiting.Load(node)
	return ok
}

// Record stores the decisions of all rules that concern a node. Rules without an entry no longer concern it. It drops
// entries from an old version of a rule: SetRules has returned the node for the new version.
func (f *Fleet) Record(node *corev1.Node, entries []Entry, now time.Time) {
	f.mu.Lock()
	n := f.add(node.Name)
	fresh := f.uids[n] != node.UID
	f.is(n, node)
	f.pass++
	f.recorded[n] = f.pass
	var changed []string
	put := func(state *ruleState, e *Entry) {
		if state.put(n, node.ResourceVersion, e, fresh, now) && !state.told {
			state.told = true
			changed = append(changed, state.rule.Name)
		}
	}
	for i := range entries {
		e := &entries[i]
		state := f.state(e.Rule.UID)
		if state == nil {
			continue
		}
		state.pass = f.pass
		if e.Rule == state.rule {
			put(state, e)
		}
	}
	for _, state := range f.rules {
		if state.pass != f.pass {
			put(state, nil)
		}
	}
	enqueue := f.freed(n)
	f.mu.Unlock()
	f.tell(changed, enqueue)
}

// freed returns the nodes to enqueue after the pairs of a node have changed. It also updates awaiting.
func (f *Fleet) freed(n int32) []string {
	var enqueue []string
	heartbeat := false
	for _, state := range f.rules {
		heartbeat = heartbeat || state.at(n).heartbeat
		enqueue = state.wake(enqueue)
	}
	if heartbeat {
		f.awaiting.Store(f.names[n], struct{}{})
	} else {
		f.awaiting.Delete(f.names[n])
	}
	return enqueue
}

// Forget removes a deleted node.
func (f *Fleet) Forget(node string, now time.Time) {
	f.mu.Lock()
	n, known := f.number[node]
	if !known {
		f.mu.Unlock()
		return
	}
	changed, enqueue := f.drop(n, now)
	f.remove(node)
	f.mu.Unlock()
	f.tell(changed, enqueue)
}

// drop removes what is known of a deleted node. It returns what to tell the listener. The caller holds f.mu.
func (f *Fleet) drop(n int32, now time.Time) (changed, enqueue []string) {
	for _, state := range f.rules {
		if state.put(n, "", nil, true, now) {
			changed = append(changed, state.rule.Name)
		}
	}
	return changed, f.freed(n)
}

// Expired returns the names of the nodes that wait for their replacement under a rule, in order.
func (f *Fleet) Expired(rule types.UID) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.state(rule)
	var names []string
	for _, n := range f.byName {
		if p := state.at(n); p.expired {
			names = append(names, f.names[n])
		}
	}
	return names
}

func (f *Fleet) tell(changed, enqueue []string) {
	for _, name := range changed {
		f.listener.RuleChanged(name)
	}
	if len(enqueue) > 0 {
		f.listener.Enqueue(enqueue)
	}
}
