// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// marks limits the number of nodes on which the published condition is False to maxUnavailable, because a remediator
// may delete such nodes.
type marks struct {
	// marked is the number of nodes on which the condition is False.
	marked int
	// granted are the nodes whose condition may become False, and on which this process has not seen it yet. It is nil
	// until ReserveFalse is first called.
	granted map[int32]struct{}
	// denied are the nodes that wait for the limit.
	denied map[int32]struct{}
}

// markable returns the number of nodes on which the condition may still become False.
func (s *ruleState) markable() int {
	b := &s.limit
	return s.rule.MaxUnavailable(b.released) - b.marked - len(b.granted) - b.deleted
}

// ReserveFalse asks the limit whether the condition that a rule publishes may become False on a node. Record ends a
// grant.
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
	if state.markable() <= 0 {
		b.denied[n] = struct{}{}
		return false
	}
	delete(b.denied, n)
	b.granted[n] = struct{}{}
	return true
}

// wakeDenied appends the names of waiting nodes that the limit now allows. They call ReserveFalse again.
func (s *ruleState) wakeDenied(names []string) []string {
	if len(s.limit.denied) == 0 {
		return names
	}
	room := s.markable()
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
