// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"slices"
	"time"
)

// waiter is a node that waits for a use.
type waiter struct {
	since time.Time
	node  int32
	cell  *cell
	woken bool
}

// wait adds a node to the waiting ones. It has been unready since a time.
func (l *Limit) wait(u Use, n int32, since time.Time, c *cell) *waiter {
	l.stopWaiting(u, n)
	w := &waiter{since: since, node: n, cell: c}
	for _, u := range [...]Use{u, u.woken()} {
		c.waiting[u].ReplaceOrInsert(w)
		if head := c.head[u]; head == nil || l.order(w, head) {
			l.list(c, u, nil)
		}
	}
	l.lines[u].waiters[n] = w
	return w
}

func (l *Limit) stopWaiting(u Use, n int32) {
	w, ok := l.lines[u].waiters[n]
	if !ok {
		return
	}
	delete(l.lines[u].waiters, n)
	l.remove(u, w)
	if !w.woken {
		l.remove(u.woken(), w)
		return
	}
	l.rates.woken[u]--
	w.cell.take(u.woken(), -1)
	l.changed = true
}

func (l *Limit) remove(u Use, w *waiter) {
	w.cell.waiting[u].Delete(w)
	if w.cell.head[u] == w {
		l.list(w.cell, u, nil)
	}
}

// list makes the first waiting node of a cell its head, or the one that follows another node.
func (l *Limit) list(c *cell, u Use, after *waiter) {
	if w := c.head[u]; w != nil {
		c.listed[u].Delete(w)
		c.head[u] = nil
		l.follow(c, u)
	}
	if after == nil {
		c.head[u], _ = c.waiting[u].Min()
	} else {
		c.waiting[u].AscendGreaterOrEqual(after, func(w *waiter) bool {
			if w != after {
				c.head[u] = w
			}
			return w == after
		})
	}
	if c.head[u] != nil {
		l.offer(c.head[u], u, &l.heads)
	}
}

// offer puts the head of a cell into a tree.
func (l *Limit) offer(w *waiter, u Use, in *blocked) {
	if in[u] == nil {
		in[u] = l.tree()
	}
	in[u].ReplaceOrInsert(w)
	w.cell.listed[u] = in[u]
}

// follow offers the next nodes of the domains of a cell whose head has had its turn.
func (l *Limit) follow(c *cell, u Use) {
	for _, d := range c.domains {
		if e := d.full(u); e == nil || e.MaxDomains != nil {
			d.blocked.release(l, u)
		}
	}
}

// next returns the node that was unready for longest of the heads that have room for a use, or nil. One without room
// waits in what blocks it.
func (l *Limit) next(u Use) *waiter {
	for {
		w, ok := l.heads[u].Min()
		if !ok {
			return nil
		}
		e, d := w.cell.full(u)
		if e == nil {
			return w
		}
		l.heads[u].DeleteMin()
		if e.MaxDomains != nil {
			l.offer(w, u, &d.group.blocked)
		} else {
			l.offer(w, u, &d.blocked)
		}
		l.follow(w.cell, u)
	}
}

// fill calls a function with the waiting nodes that have room together, the longest unready first, until it returns
// false.
func (l *Limit) fill(u Use, more func(*waiter) bool) {
	var taken []*cell
	for w := l.next(u); w != nil && more(w); w = l.next(u) {
		w.cell.take(u, 1)
		taken = append(taken, w.cell)
		l.list(w.cell, u, w)
	}
	for _, c := range taken {
		c.take(u, -1)
		l.list(c, u, nil)
	}
}

// amongFirst reports whether there is room for a waiting node after all that have been unready for longer, and that
// have room. Under a rate, only so many of them come before a held node as may be held now.
func (l *Limit) amongFirst(w *waiter, r Request) (first bool) {
	ahead := 0
	l.fill(r.Use, func(next *waiter) bool {
		e, _ := w.cell.full(r.Use)
		switch {
		case e != nil:
			return false
		case l.rates.apply && ahead >= l.rates.open(r.Use):
			first = r.Held
			return false
		}
		ahead++
		first = !l.order(next, w)
		return !first
	})
	return first
}

// Waiting returns the number of nodes that wait for a use, and the first few of them, the longest unready first.
func (l *Limit) Waiting(u Use, few int) (nodes int, first []int32) {
	nodes = len(l.lines[u].waiters)
	if few == 0 || nodes == 0 {
		return nodes, nil
	}
	var all []*waiter
	for _, c := range l.cells {
		left := few
		c.waiting[u].Ascend(func(w *waiter) bool {
			all, left = append(all, w), left-1
			return left > 0
		})
	}
	slices.SortFunc(all, func(a, b *waiter) int {
		if l.order(a, b) {
			return -1
		}
		return 1
	})
	for _, w := range all[:min(few, len(all))] {
		first = append(first, w.node)
	}
	return nodes, first
}

// Wake appends the waiting nodes that the limits now allow, the longest unready first. They call Reserve again. A node
// that was woken before keeps its place until it does so, or until Settle.
func (l *Limit) Wake(nodes []int32) []int32 {
	if !l.changed || !l.rule.Set() {
		return nodes
	}
	l.changed = false
	for u := range kinds {
		for !l.rates.apply || l.rates.woken[u] < l.rates.open(u) {
			w := l.next(u.woken())
			if w == nil {
				break
			}
			w.woken = true
			l.rates.woken[u]++
			l.remove(u.woken(), w)
			w.cell.take(u.woken(), 1)
			nodes = append(nodes, w.node)
		}
	}
	return nodes
}
