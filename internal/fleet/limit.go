// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
)

// limit is a rule's limit: how many released nodes there are, how many of them the rule claims, and who waits.
type limit struct {
	released int
	claimed  int
	// reserved are claims that were granted and are not on the node yet, as far as is known.
	reserved map[string]struct{}
	// waiting are the nodes that were refused, with since when they are not ready.
	waiting map[string]time.Time
}

func newLimit() limit {
	return limit{reserved: map[string]struct{}{}, waiting: map[string]time.Time{}}
}

// count replaces a node's share in the two numbers.
func (b *limit) count(before, after *Entry) {
	add := func(e *Entry, n int) {
		if e == nil || !e.Current.Counted {
			return
		}
		b.released += n
		if e.Current.Claimed {
			b.claimed += n
		}
	}
	add(before, -1)
	add(after, 1)
}

// settle ends a node's reservation and its waiting, as its new entry says. After a failure nobody knows whether the
// claim was made: it stays reserved until that is seen, or given back.
func (b *limit) settle(node string, e *Entry) {
	if e == nil || e.State != v1alpha1.NodeStateFailed {
		delete(b.reserved, node)
	}
	if e == nil || e.Reason != gate.ReasonOverBudget {
		delete(b.waiting, node)
	}
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
	state := f.rules[rule]
	if state == nil {
		return false
	}
	b := &state.limit
	if _, ok := b.reserved[node]; ok {
		return true
	}
	b.waiting[node] = since
	room := state.available()
	if room <= 0 || len(b.waiting) > room && !slices.Contains(b.longest(room), node) {
		return false
	}
	delete(b.waiting, node)
	b.reserved[node] = struct{}{}
	return true
}

// Unreserve gives back what was granted and not used.
func (f *Fleet) Unreserve(rule types.UID, node string) {
	f.mu.Lock()
	var enqueue []string
	if state := f.rules[rule]; state != nil {
		delete(state.limit.reserved, node)
		enqueue = state.enqueue()
	}
	f.mu.Unlock()
	f.tell(nil, enqueue)
}

// longest are the n nodes that wait and are longest not ready.
func (b *limit) longest(n int) []string {
	names := slices.SortedFunc(maps.Keys(b.waiting), func(x, y string) int {
		return cmp.Or(b.waiting[x].Compare(b.waiting[y]), strings.Compare(x, y))
	})
	return names[:min(n, len(names))]
}

// enqueue are the waiting nodes that there is room for now.
func (s *ruleState) enqueue() []string {
	if len(s.limit.waiting) == 0 || !s.rule.Limited() {
		return nil
	}
	if room := s.available(); room > 0 {
		return s.limit.longest(room)
	}
	return nil
}
