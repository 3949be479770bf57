// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"maps"
	"slices"
)

// marks limits the number of nodes on which the published condition is False, because a remediator may delete such
// nodes.
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
func (l *Limit) markable() int { return l.Allowed() - l.marked - len(l.granted) - l.deleted }

// ReserveFalse asks whether the condition that the rule publishes may become False on a node. Settle ends a grant.
func (l *Limit) ReserveFalse(n int32) bool {
	if _, ok := l.granted[n]; ok {
		return true
	}
	if l.granted == nil {
		l.granted, l.denied = map[int32]struct{}{}, map[int32]struct{}{}
	}
	if l.markable() <= 0 {
		l.denied[n] = struct{}{}
		return false
	}
	delete(l.denied, n)
	l.granted[n] = struct{}{}
	return true
}

// wakeDenied appends the waiting nodes that the limit now allows. They call ReserveFalse again.
func (l *Limit) wakeDenied(nodes []int32) []int32 {
	if len(l.denied) == 0 {
		return nodes
	}
	room := l.markable()
	for _, n := range slices.Sorted(maps.Keys(l.denied)) {
		if room <= 0 {
			break
		}
		room--
		delete(l.denied, n)
		nodes = append(nodes, n)
	}
	return nodes
}
