// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Entry is what is known of one node under one rule.
type Entry struct {
	// Rule is the version of the rule that was decided by.
	Rule *ruleset.Rule
	// Current is the state of the node under the rule.
	Current gate.State
	// State and Reason are for the rule's status. State is empty where the rule does not match.
	State  v1alpha1.NodeState
	Reason string
	// Message says, of a failed node, what happened.
	Message string
	// Present is whether the rule's taint is on the node.
	Present bool
	// Results are the conditions as found, of a node that is not ready.
	Results []v1alpha1.ConditionEvaluationResult
	// Requirements are the requirements as found, of a node that is not ready.
	Requirements []v1alpha1.RequirementEvaluationResult
	// Warning is what makes the rule's evidence weaker than it looks; usually empty.
	Warning string
	// Shared is whether an older claim decides about the rule's taint.
	Shared bool
	// Displaced says which condition that a probe of the rule would publish is an older rule's; empty for none.
	Displaced string
	// WouldClaim, WouldRelease and Risky are what a rule in dry-run would do; risky, where evidence never appeared.
	WouldClaim, WouldRelease, Risky bool
	// Hold is what the rule's eviction guard does.
	Hold gate.HoldState
	// Observed and HeartbeatDecides are of the last verdict.
	Observed         readiness.Observed
	HeartbeatDecides bool

	changedAt time.Time
	pending   bool
}

func (e *Entry) matches() bool { return e.Current.Matches }

// sameTo reports whether a status would say the same of both.
func (e *Entry) sameTo(o *Entry) bool {
	return e.State == o.State && e.Reason == o.Reason && e.Message == o.Message && e.Warning == o.Warning &&
		e.Present == o.Present &&
		e.pending == o.pending && e.Shared == o.Shared && e.Displaced == o.Displaced && e.matches() == o.matches() &&
		e.WouldClaim == o.WouldClaim && e.WouldRelease == o.WouldRelease && e.Risky == o.Risky && e.Hold == o.Hold &&
		slices.Equal(e.Results, o.Results) && slices.Equal(e.Requirements, o.Requirements)
}

// Listener is told what has changed. Its methods are called without a lock, and must not block.
type Listener interface {
	// RuleChanged is called when something that a rule's status says may have changed.
	RuleChanged(name string)
	// Enqueue is called with nodes for which maxUnavailable has room again.
	Enqueue(nodes []string)
}

// Fleet is the state of all nodes under all rules. It is safe for concurrent use.
type Fleet struct {
	listener Listener

	mu    sync.Mutex
	set   *ruleset.Set
	rules map[types.UID]*ruleState
	nodes map[string]types.UID
}

type ruleState struct {
	rule    *ruleset.Rule
	entries map[string]*Entry
	pending int
	limit   limit
}

// New is an empty fleet.
func New(listener Listener) *Fleet {
	return &Fleet{
		listener: listener,
		set:      ruleset.NewSet(),
		rules:    map[types.UID]*ruleState{},
		nodes:    map[string]types.UID{},
	}
}

// Rules is the snapshot of rules that is decided by. It is changed together with the numbers of the limits, so that
// whoever decides by it finds them complete.
func (f *Fleet) Rules() *ruleset.Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set
}

// Rule is the version of a rule that is decided by, nil if it is not known, and how many nodes have not been looked at
// under it.
func (f *Fleet) Rule(uid types.UID) (rule *ruleset.Rule, pending int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state := f.rules[uid]; state != nil {
		return state.rule, state.pending
	}
	return nil, 0
}

// SetRules puts another snapshot in the place of the present one. For each rule that is new or has changed, where all
// nodes stand is read again before anybody can decide by it; and the names of the nodes that it concerns, or concerned
// before, are returned: they have to be looked at.
func (f *Fleet) SetRules(set *ruleset.Set, nodes []*corev1.Node, now time.Time) []string {
	f.mu.Lock()
	var changed []string
	affected := map[string]struct{}{}
	for uid, state := range f.rules {
		if set.Rule(uid) == nil {
			for name := range state.entries {
				affected[name] = struct{}{}
			}
			changed = append(changed, state.rule.Name)
			delete(f.rules, uid)
		}
	}
	for _, rule := range set.All() {
		before := f.rules[rule.UID]
		if before != nil && before.rule == rule {
			continue
		}
		state := newRuleState(rule, before, nodes, now)
		for name := range state.entries {
			affected[name] = struct{}{}
		}
		if before != nil {
			for name := range before.entries {
				affected[name] = struct{}{}
			}
		}
		f.rules[rule.UID] = state
		changed = append(changed, rule.Name)
	}
	for _, node := range nodes {
		if _, known := f.nodes[node.Name]; !known {
			f.nodes[node.Name] = node.UID
		}
	}
	f.set = set
	f.mu.Unlock()

	for _, name := range changed {
		f.listener.RuleChanged(name)
	}
	names := make([]string, 0, len(affected))
	for name := range affected {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func newRuleState(rule *ruleset.Rule, before *ruleState, nodes []*corev1.Node, now time.Time) *ruleState {
	state := &ruleState{rule: rule, entries: map[string]*Entry{}, limit: newLimit()}
	for _, node := range nodes {
		current := gate.StateOf(rule, node, now)
		if !current.Concerns(rule, node) {
			continue
		}
		e := &Entry{Rule: rule, Current: current, State: v1alpha1.NodeStatePending, changedAt: now, pending: true,
			Present: gate.Find(node, rule.Taint) != nil}
		if rule.JustInForce {
			e.Observed.Since = rule.InForceSince // what is missing now was missing then
		}
		if before != nil {
			if old := before.entries[node.Name]; old != nil {
				e.Observed, e.HeartbeatDecides = old.Observed, old.HeartbeatDecides
			}
		}
		state.entries[node.Name] = e
		state.pending++
		state.limit.count(nil, e)
	}
	if before != nil {
		state.limit.reserved = before.limit.reserved
	}
	return state
}

// Observed is what this process saw of a rule on a node before.
func (f *Fleet) Observed(node *corev1.Node, rule types.UID) readiness.Observed {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.rules[rule]
	if state == nil || f.nodes[node.Name] != node.UID {
		return readiness.Observed{}
	}
	if e := state.entries[node.Name]; e != nil {
		return e.Observed
	}
	return readiness.Observed{}
}

// HeartbeatDecides reports whether a heartbeat alone may change a verdict about a node.
func (f *Fleet) HeartbeatDecides(node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, state := range f.rules {
		if e := state.entries[node]; e != nil && e.HeartbeatDecides {
			return true
		}
	}
	return false
}

// Record keeps what was decided about a node by all rules that concern it. Rules that are not among the entries have
// nothing to do with it any more. Entries by a version of a rule that is not the present one are dropped: the node is
// queued again for that one.
func (f *Fleet) Record(node *corev1.Node, entries []Entry, now time.Time) {
	f.mu.Lock()
	fresh := f.nodes[node.Name] != node.UID
	f.nodes[node.Name] = node.UID
	given := make(map[types.UID]*Entry, len(entries))
	for i := range entries {
		given[entries[i].Rule.UID] = &entries[i]
	}
	var changed, enqueue []string
	for uid, state := range f.rules {
		e := given[uid]
		if e != nil && e.Rule != state.rule {
			continue
		}
		if state.put(node.Name, e, fresh, now) {
			changed = append(changed, state.rule.Name)
		}
		enqueue = append(enqueue, state.enqueue()...)
	}
	f.mu.Unlock()
	f.tell(changed, enqueue)
}

// Forget drops a node that is gone.
func (f *Fleet) Forget(node string, now time.Time) {
	f.mu.Lock()
	delete(f.nodes, node)
	var changed, enqueue []string
	for _, state := range f.rules {
		if state.put(node, nil, true, now) {
			changed = append(changed, state.rule.Name)
		}
		enqueue = append(enqueue, state.enqueue()...)
	}
	f.mu.Unlock()
	f.tell(changed, enqueue)
}

func (f *Fleet) tell(changed, enqueue []string) {
	for _, name := range changed {
		f.listener.RuleChanged(name)
	}
	if len(enqueue) > 0 {
		f.listener.Enqueue(enqueue)
	}
}

// put replaces the entry of a node, nil for none, and reports whether a status would say something else now.
func (s *ruleState) put(node string, e *Entry, fresh bool, now time.Time) bool {
	before := s.entries[node]
	if before == nil && e == nil {
		return false
	}
	s.limit.count(before, e)
	s.limit.settle(node, e)
	if before != nil && before.pending {
		s.pending--
	}
	if e == nil {
		delete(s.entries, node)
		return true
	}
	kept := *e
	kept.changedAt = now
	same := before != nil && !fresh && before.sameTo(&kept)
	if same {
		kept.changedAt = before.changedAt
	}
	s.entries[node] = &kept
	return !same
}
