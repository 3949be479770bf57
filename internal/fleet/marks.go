// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// marks limit on how many nodes the condition that a rule publishes is False: on at most maxUnavailable. A remediator
// deletes such nodes. A node that was deleted while it was marked keeps its place until a node becomes ready under the
// rule: so a broken reporter has no fleet deleted, one node after another.
type marks struct {
	// marked is on how many nodes the condition is False.
	marked int
	// granted are the nodes that may be marked, and are not yet, as far as is known. Nil, if there were none so far.
	granted map[int32]struct{}
	// denied are the nodes that wait for a place.
	denied map[int32]struct{}
	// deleted is how many nodes were deleted while they were marked, for which no node has become ready since.
	deleted int
}

// places is how many more nodes may be marked.
func (s *ruleState) places() int {
	b := &s.limit
	return s.rule.MaxUnavailable(b.released) - b.marked - len(b.granted) - b.deleted
}

// ReserveFalse asks a rule's limit whether the condition that the rule publishes may become False on a node. What is
// granted is ended by Record.
func (f *Fleet) ReserveFalse(rule types.UID, node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.state(rule)
	if state == nil {
		return false
	}
	n, b := f.add(node), &state.limit
	if _, ok := b.granted[n]; ok {
		return true
	}
	if b.granted == nil {
		b.granted, b.denied = map[int32]struct{}{}, map[int32]struct{}{}
	}
	if state.places() <= 0 {
		b.denied[n] = struct{}{}
		return false
	}
	delete(b.denied, n)
	b.granted[n] = struct{}{}
	return true
}

// wakeDenied adds the names of the nodes that there is a place for now. They ask again.
func (s *ruleState) wakeDenied(names []string) []string {
	if len(s.limit.denied) == 0 {
		return names
	}
	room := s.places()
	for _, n := range slices.Sorted(maps.Keys(s.limit.denied)) {
		if room <= 0 {
			break
		}
		room--
		delete(s.limit.denied, n)
		names = append(names, s.nodes.names[n])
	}
	return names
}

// replaced counts nodes that are deleted while they are marked, and those that become ready in their place.
func (s *ruleState) replaced(before *pair, e *Entry, fresh bool) {
	b := &s.limit
	if fresh && before.outcome != none && before.marked && s.rule.Limited() {
		b.deleted++
	}
	if b.deleted == 0 || e == nil || e.State != v1alpha1.NodeStateReady {
		return
	}
	if before.outcome != none && !fresh {
		if o := &s.outcomes[before.outcome]; o.State == v1alpha1.NodeStateReady || o.pending {
			return
		}
	}
	b.deleted--
}
