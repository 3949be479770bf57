// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
)

// limit is a rule's limit: how many released nodes there are, how many of them the rule claims, and which wait.
type limit struct {
	released int
	claimed  int
	// reserved are claims that were granted and are not on the node yet, as far as is known.
	reserved map[int32]struct{}
	// waiting are the nodes that were refused, the longest unready first; since is their order, by node.
	waiting []waiter
	since   map[int32]int64
	// woken is how many of them were told that there is room, and have not asked since.
	woken int
	marks
}

// waiter is a node that waits for room.
type waiter struct {
	since int64
	node  int32
	woken bool
}

func newLimit() limit {
	return limit{reserved: map[int32]struct{}{}, since: map[int32]int64{}}
}

// count adds a pair to the two numbers, or takes it off them.
func (b *limit) count(p *pair, n int) {
	if p.outcome == none {
		return
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

// settle ends a node's reservation and its waiting, as its new entry says. After a failure it is not known whether the
// claim was made: it stays reserved until that is seen, or given back.
func (s *ruleState) settle(n int32, e *Entry) {
	b := &s.limit
	if e == nil || e.State != v1alpha1.NodeStateFailed {
		delete(b.reserved, n)
		delete(b.granted, n)
	}
	if e == nil || e.State == v1alpha1.NodeStateReady {
		delete(b.denied, n)
	}
	if e == nil || e.Reason != gate.ReasonOverBudget {
		s.stopWaiting(n)
	}
}

// position is where a node that is unready since a time is among the waiting ones, or would be.
func (s *ruleState) position(n int32, since int64) (int, bool) {
	return slices.BinarySearchFunc(s.limit.waiting, n, func(w waiter, n int32) int {
		return cmp.Or(cmp.Compare(w.since, since), strings.Compare(s.nodes.names[w.node], s.nodes.names[n]))
	})
}

// wait makes a node wait, and returns how many wait before it.
func (s *ruleState) wait(n int32, since int64) int {
	s.stopWaiting(n)
	at, _ := s.position(n, since)
	s.limit.waiting = slices.Insert(s.limit.waiting, at, waiter{since: since, node: n})
	s.limit.since[n] = since
	return at
}

func (s *ruleState) stopWaiting(n int32) {
	b := &s.limit
	since, ok := b.since[n]
	if !ok {
		return
	}
	at, _ := s.position(n, since)
	if b.waiting[at].woken {
		b.woken--
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	delete(b.since, n)
}

// available is for how many more claims there is room.
func (s *ruleState) available() int {
	return s.rule.MaxUnavailable(s.limit.released) - s.limit.claimed - len(s.limit.reserved)
}

// Reserve asks for room for a rule's claim on a node in service that is not ready since the given time. Those that are
// longest not ready come first. What is granted has to be ended by Record, or by Unreserve.
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
	if before := state.wait(n, nanos(since)); before >= state.available() {
		return false
	}
	state.stopWaiting(n)
	state.limit.reserved[n] = struct{}{}
	return true
}

// Unreserve gives back what was granted and not used.
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

// wake adds the names of the nodes that there is room for now, the longest unready first. A node that was woken and has
// not asked yet keeps its place: it asks in its next pass, or is recorded to wait no more.
func (s *ruleState) wake(names []string) []string {
	b := &s.limit
	names = s.wakeDenied(names)
	if len(b.waiting) == b.woken || !s.rule.Limited() {
		return names
	}
	room := s.available() - b.woken
	for i := 0; room > 0 && i < len(b.waiting); i++ {
		if w := &b.waiting[i]; !w.woken {
			w.woken = true
			b.woken++
			room--
			names = append(names, s.nodes.names[w.node])
		}
	}
	return names
}
