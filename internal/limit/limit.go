// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"time"

	"github.com/google/btree"
)

// Node is what a limit counts of a node under its rule. The zero value counts nothing.
type Node struct {
	// Counted says that the node is one of those that the limit is a share of. Claimed says that the rule holds it.
	Counted, Claimed bool
	// Marked says that the condition that the rule publishes is False on the node.
	Marked bool
}

// Limit is the state of the limit of one rule.
type Limit struct {
	rule Rule
	// inService counts the nodes that the limit is a share of, and claimed those of them that the rule holds.
	inService int
	claimed   int
	// reserved are the nodes with a granted claim that this process has not seen on the node yet.
	reserved map[int32]struct{}
	// waiting are the refused nodes, the longest unready first, and of several the first by name. waiters has the same
	// by node.
	waiting *btree.BTreeG[*waiter]
	waiters map[int32]*waiter
	// woken is the number of waiting nodes that were woken because there is room, and have not called Reserve since.
	woken int
	marks
	places
}

// waiter is a node that waits for the limit.
type waiter struct {
	since time.Time
	node  int32
	woken bool
}

// New returns the state of a limit that counts no node. kept says that the places of deleted nodes count. before is the
// order of two nodes by name.
func New(rule Rule, kept bool, before func(a, b int32) bool) Limit {
	order := func(a, b *waiter) bool {
		return a.since.Before(b.since) || a.since.Equal(b.since) && before(a.node, b.node)
	}
	return Limit{rule: rule, reserved: map[int32]struct{}{}, waiting: btree.NewG(32, order), waiters: map[int32]*waiter{},
		places: places{kept: kept && rule.Set()}}
}

// Inherit takes over what an earlier version of the rule has granted. same says that it selected the same nodes, so that
// the places of deleted nodes count still.
func (l *Limit) Inherit(from *Limit, same bool) {
	l.reserved, l.granted, l.denied = from.reserved, from.granted, from.denied
	if l.kept && same {
		l.deleted, l.deletedAt = from.deleted, from.deletedAt
	}
}

// InService returns the number of nodes that the limit is a share of.
func (l *Limit) InService() int { return l.inService }

// Allowed returns how many nodes in service the rule may hold at a time.
func (l *Limit) Allowed() int { return l.rule.Of(l.inService) }

// Recount counts a node that has changed.
func (l *Limit) Recount(was, is Node) {
	l.count(was, -1)
	l.count(is, 1)
}

func (l *Limit) count(node Node, n int) {
	if node.place() {
		l.inUse += n
	}
	if node.Marked {
		l.marked += n
	}
	if !node.Counted {
		return
	}
	l.inService += n
	if node.Claimed {
		l.claimed += n
	}
}

// Fate is what is known of a node after a decision about it.
type Fate struct {
	// Unknown says that the outcome of the last write is not known. A granted claim may or may not be on the node: it
	// stays reserved until a later decision shows which, or until Unreserve.
	Unknown bool
	// Ready says that the node is ready, Refused that the limit does not allow the rule to hold it.
	Ready, Refused bool
}

// Settle ends a node's reservation and its waiting, depending on the decision about it.
func (l *Limit) Settle(n int32, f Fate) {
	if !f.Unknown {
		delete(l.reserved, n)
		delete(l.granted, n)
	}
	if f.Ready {
		delete(l.denied, n)
	}
	if !f.Refused {
		l.stopWaiting(n)
	}
}

// Wait adds a node to the waiting ones. It has been unready since a time.
func (l *Limit) Wait(n int32, since time.Time) {
	l.stopWaiting(n)
	w := &waiter{since: since, node: n}
	l.waiting.ReplaceOrInsert(w)
	l.waiters[n] = w
}

func (l *Limit) stopWaiting(n int32) {
	w, ok := l.waiters[n]
	if !ok {
		return
	}
	if w.woken {
		l.woken--
	}
	l.waiting.Delete(w)
	delete(l.waiters, n)
}

// Waits reports whether a node waits, and since when it has been unready.
func (l *Limit) Waits(n int32) (since time.Time, waits bool) {
	if w := l.waiters[n]; w != nil {
		return w.since, true
	}
	return time.Time{}, false
}

// Waiting returns the number of waiting nodes, and the first few of them, the longest unready first.
func (l *Limit) Waiting(few int) (nodes int, first []int32) {
	l.waiting.Ascend(func(w *waiter) bool {
		if len(first) < few {
			first = append(first, w.node)
		}
		return len(first) < few
	})
	return l.waiting.Len(), first
}

// amongFirst reports whether a node is one of the first waiting ones.
func (l *Limit) amongFirst(count int, n int32) (found bool) {
	l.waiting.Ascend(func(w *waiter) bool {
		found = count > 0 && w.node == n
		count--
		return count > 0 && !found
	})
	return found
}

// available returns the number of claims that the limit still allows.
func (l *Limit) available() int { return l.Allowed() - l.claimed - len(l.reserved) - l.deleted }

// Reserve asks whether the rule may hold a node in service that has been unready since a time. Nodes that have been
// unready longer come first. A granted claim ends with Settle or Unreserve.
func (l *Limit) Reserve(n int32, since time.Time) bool {
	if _, ok := l.reserved[n]; ok {
		return true
	}
	if l.Wait(n, since); !l.amongFirst(l.available(), n) {
		return false
	}
	l.stopWaiting(n)
	l.reserved[n] = struct{}{}
	return true
}

// Unreserve returns a granted claim that was not used.
func (l *Limit) Unreserve(n int32) { delete(l.reserved, n) }

// Wake appends the waiting nodes that the limit now allows, the longest unready first. A node that was woken before
// keeps its place until it calls Reserve or Settle.
func (l *Limit) Wake(nodes []int32) []int32 {
	nodes = l.wakeDenied(nodes)
	if l.waiting.Len() == l.woken || !l.rule.Set() {
		return nodes
	}
	room := l.available() - l.woken
	l.waiting.Ascend(func(w *waiter) bool {
		if room > 0 && !w.woken {
			w.woken = true
			l.woken++
			room--
			nodes = append(nodes, w.node)
		}
		return room > 0
	})
	return nodes
}
