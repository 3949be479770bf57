// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/google/btree"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/state"
)

// limit is the state of maxUnavailable for one rule. released counts the nodes that the limit is a share of, and
// claimed those of them that the rule holds.
type limit struct {
	released int
	claimed  int
	// reserved are the nodes with a granted claim that this process has not seen on the node yet.
	reserved map[int32]struct{}
	// waiting are the refused nodes, the longest unready first, and of several the first by name. waiters has the same
	// by node.
	waiting *btree.BTreeG[*waiter]
	waiters map[int32]*waiter
	// woken is the number of waiting nodes that were enqueued because there is room, and have not called Reserve since.
	woken int
	marks
	places
}

// waiter is a node that waits for the limit.
type waiter struct {
	since int64
	node  int32
	woken bool
}

func newLimit(n *nodes) limit {
	before := func(a, b *waiter) bool {
		return a.since < b.since || a.since == b.since && n.names[a.node] < n.names[b.node]
	}
	return limit{reserved: map[int32]struct{}{}, waiting: btree.NewG(32, before), waiters: map[int32]*waiter{}}
}

func (b *limit) count(p *pair, n int) {
	if p.outcome == none {
		return
	}
	if p.place() {
		b.inUse += n
	}
	if p.marked {
		b.marked += n
	}
	if !p.counted {
		return
	}
	b.released += n
	if p.claimed {
		b.claimed += n
	}
}

// settle ends a node's reservation and its waiting, depending on its new entry. After a failed write the claim may or
// may not be on the node. It stays reserved until a later entry shows which, or until Unreserve.
func (s *ruleState) settle(n int32, e *Entry) {
	b := &s.limit
	if e == nil || e.State != v1alpha1.NodeStateFailed {
		delete(b.reserved, n)
		delete(b.granted, n)
	}
	if e == nil || e.State == v1alpha1.NodeStateReady {
		delete(b.denied, n)
	}
	if e == nil || e.Reason != state.ReasonOverBudget {
		s.stopWaiting(n)
	}
}

// wait adds a node to the waiting ones.
func (s *ruleState) wait(n int32, since int64) {
	s.stopWaiting(n)
	w := &waiter{since: since, node: n}
	s.limit.waiting.ReplaceOrInsert(w)
	s.limit.waiters[n] = w
}

func (s *ruleState) stopWaiting(n int32) {
	b := &s.limit
	w, ok := b.waiters[n]
	if !ok {
		return
	}
	if w.woken {
		b.woken--
	}
	b.waiting.Delete(w)
	delete(b.waiters, n)
}

// amongFirst reports whether a node is one of the first waiting ones.
func (s *ruleState) amongFirst(count int, n int32) (found bool) {
	s.limit.waiting.Ascend(func(w *waiter) bool {
		found = count > 0 && w.node == n
		count--
		return count > 0 && !found
	})
	return found
}

// available returns the number of claims that the limit still allows.
func (s *ruleState) available() int {
	return s.rule.MaxUnavailable(s.limit.released) - s.limit.claimed - len(s.limit.reserved) - s.limit.deleted
}

// Reserve asks the limit whether a rule may claim its taint on a node in service that has been unready since a time.
// Nodes that have been unready longer come first. A granted claim ends with Record or Unreserve.
func (f *Fleet) Reserve(rule types.UID, node string, since time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.state(rule)
	if state == nil {
		return false
	}
	n := f.add(node)
	if _, ok := state.limit.reserved[n]; ok {
		return true
	}
	if state.wait(n, nanos(since)); !state.amongFirst(state.available(), n) {
		return false
	}
	state.stopWaiting(n)
	state.limit.reserved[n] = struct{}{}
	return true
}

// Unreserve returns a granted claim that was not used.
func (f *Fleet) Unreserve(rule types.UID, node string) {
	f.mu.Lock()
	var enqueue []string
	if n, known := f.number[node]; known {
		if state := f.state(rule); state != nil {
			delete(state.limit.reserved, n)
			enqueue = state.wake(nil)
		}
	}
	f.mu.Unlock()
	f.tell(nil, enqueue)
}

// wake appends the names of waiting nodes that the limit now allows, the longest unready first. A node that was
// enqueued before keeps its place until its next reconcile calls Reserve or Record.
func (s *ruleState) wake(names []string) []string {
	b := &s.limit
	names = s.wakeDenied(names)
	if b.waiting.Len() == b.woken || !s.rule.Limited() {
		return names
	}
	room := s.available() - b.woken
	b.waiting.Ascend(func(w *waiter) bool {
		if room > 0 && !w.woken {
			w.woken = true
			b.woken++
			room--
			names = append(names, s.nodes.names[w.node])
		}
		return room > 0
	})
	return names
}
