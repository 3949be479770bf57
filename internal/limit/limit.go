// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Node is what the limits count of a node under its rule. The zero value counts nothing.
type Node struct {
	// Counted says that the node is one of those that the limits are a share of. Claimed says that the rule holds it.
	Counted, Claimed bool
	// Marked says that the condition that the rule publishes is False on the node.
	Marked bool
}

// Limit is the state of the limits of one rule.
//
// A node uses each limit in the domain that it is in. Room only shrinks while nodes are held, so of the waiting nodes
// that have room now the one that was unready for longest is next, and a node without room now needs no second look.
type Limit struct {
	rule    Rule
	order   func(a, b *waiter) bool
	groups  []*group
	cells   map[string]*cell // by the domains
	sweepAt int
	base    *cell   // of nodes in no domain
	all     *domain // of all nodes
	places  []*cell // of nodes, by their numbers; nil beyond the end, and for a node that is not counted
	// reserved are the granted claims that this process has not seen on their nodes yet.
	reserved map[int32]reservation
	// waiters are the refused nodes. Each is in the trees of its cell, too.
	waiters map[int32]*waiter
	// granted are the nodes whose condition may become False, and on which this process has not seen it yet. denied are
	// the nodes that wait for that.
	granted, denied map[int32]*cell
	// look are the cells with waiting nodes that may have room for a use; of wakes, with nodes that are asleep.
	look [uses]map[*cell]struct{}
	// changed says that there may be room for waiting nodes since the last Wake.
	changed bool

	rates rates // if a limit is a rate, and the rule is enforced

	kept      bool // the places of deleted nodes count
	deletedAt time.Time
}

// reservation is a granted claim. If a limit is a rate, it may be made until a time.
type reservation struct {
	cell  *cell
	until time.Time
}

// waiter is a node that waits for the limits.
type waiter struct {
	since time.Time
	node  int32
	cell  *cell
	woken bool
}

// New returns the state of limits that count no node. kept says that the places of deleted nodes count. before is the
// order of two nodes by name.
func New(rule Rule, kept bool, before func(a, b int32) bool) *Limit {
	l := &Limit{rule: rule, cells: map[string]*cell{}, sweepAt: 64, reserved: map[int32]reservation{},
		waiters: map[int32]*waiter{}, granted: map[int32]*cell{}, denied: map[int32]*cell{}, changed: true,
		kept: kept && rule.Set(), rates: rates{apply: kept && rule.Rated()},
		order: func(a, b *waiter) bool {
			return a.since.Before(b.since) || a.since.Equal(b.since) && before(a.node, b.node)
		}}
	for u := range uses {
		l.look[u] = map[*cell]struct{}{}
	}
	for _, key := range append([]string{""}, rule.keys...) {
		g := &group{limit: l, key: key, domains: map[string]*domain{}}
		for i := range rule.entries {
			if e := newEntry(&rule.entries[i], i); e.Per == key && e.WithinSeconds == nil {
				g.entries = append(g.entries, e)
			}
		}
		l.groups = append(l.groups, g)
	}
	l.base = l.cell("")
	l.all = l.base.domains[0]
	return l
}

// Inherit takes over what an earlier version of the rule has granted. same says that it selected the same nodes, so
// that the places of deleted nodes still count. All nodes have been counted.
func (l *Limit) Inherit(from *Limit, same bool) {
	for n, r := range from.reserved {
		l.reserved[n] = reservation{l.at(n), r.until}
		l.at(n).take(claims, 1)
	}
	for n := range from.granted {
		l.granted[n] = l.at(n)
		l.at(n).take(marks, 1)
	}
	for n := range from.denied {
		l.denied[n] = l.at(n)
	}
	l.changed = true
	if l.rule.sameRates(from.rule) {
		l.rates.issued, l.rates.wanting = from.rates.issued, from.rates.wanting
	}
	if !l.kept || !same {
		return
	}
	l.deletedAt = from.deletedAt
	for _, g := range from.groups {
		for _, d := range g.domains {
			l.restore(g.key, d.name, d.deleted)
		}
	}
}

// at returns the cell of a node.
func (l *Limit) at(n int32) *cell {
	if int(n) < len(l.places) && l.places[n] != nil {
		return l.places[n]
	}
	return l.base
}

// InService returns the number of nodes that the limits are a share of.
func (l *Limit) InService() int { return l.all.inService }

// Allowed returns how many nodes in service the rule may hold at a time.
func (l *Limit) Allowed() int { return l.rule.Of(l.InService()) }

// Recount counts a node that has changed, and now is in some domains.
func (l *Limit) Recount(n int32, was, is Node, domains string) {
	from, to := l.at(n), l.at(n)
	if is != (Node{}) && len(l.rule.keys) > 0 {
		to = l.cell(domains)
		if missing := int(n) + 1 - len(l.places); missing > 0 {
			l.places = append(l.places, make([]*cell, missing)...)
		}
		l.places[n] = to
	}
	if was == is && from == to {
		return
	}
	l.changed = true
	from.count(was, -1)
	to.count(is, 1)
	if is == (Node{}) && int(n) < len(l.places) {
		l.places[n] = nil
	}
}

func (c *cell) count(node Node, by int) {
	if node.Marked {
		c.take(marks, by)
	}
	if node.Counted && node.Claimed {
		c.take(claims, by)
	}
	for _, d := range c.domains {
		if node.place() {
			d.inUse += by
		}
		if node.Counted {
			d.serve(by)
		}
	}
}

// Fate is what is known of a node after a decision about it.
type Fate struct {
	// Unknown says that the outcome of the last write is not known. A granted claim may or may not be on the node: it
	// stays reserved until a later decision shows which, or until Unreserve.
	Unknown bool
	// Ready says that the node is ready, Refused that the limits do not allow the rule to hold it.
	Ready, Refused bool
	// Unrecorded and Unmarked say that the node has no room for the record of a granted claim, or of a mark. It stays
	// granted: otherwise such a node would use up a rate.
	Unrecorded, Unmarked bool
}

// Settle ends a node's reservation and its waiting, depending on the decision about it.
func (l *Limit) Settle(n int32, f Fate) {
	if r, ok := l.reserved[n]; ok && f.Unrecorded {
		l.reserved[n] = reservation{cell: r.cell}
	} else if !f.Unknown {
		l.Unreserve(n)
	}
	if !f.Unknown && !f.Unmarked {
		if c := l.granted[n]; c != nil {
			c.take(marks, -1)
			delete(l.granted, n)
			l.changed = true
		}
	}
	if f.Ready {
		delete(l.denied, n)
	}
	if !f.Refused {
		l.stopWaiting(n)
	}
}

// Wait adds a node in some domains to the waiting ones. It has been unready since a time.
func (l *Limit) Wait(n int32, since time.Time, domains string) { l.wait(n, since, l.cell(domains)) }

func (l *Limit) wait(n int32, since time.Time, c *cell) *waiter {
	l.stopWaiting(n)
	w := &waiter{since: since, node: n, cell: c}
	c.waiting.ReplaceOrInsert(w)
	c.asleep.ReplaceOrInsert(w)
	l.look[claims][c], l.look[wakes][c] = struct{}{}, struct{}{}
	l.waiters[n] = w
	return w
}

func (l *Limit) stopWaiting(n int32) {
	w, ok := l.waiters[n]
	if !ok {
		return
	}
	w.cell.waiting.Delete(w)
	if w.woken {
		l.rates.woken--
		w.cell.take(wakes, -1)
		l.changed = true
	} else {
		w.cell.asleep.Delete(w)
	}
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
	if few > 0 && len(l.waiters) > 0 {
		var all []*waiter
		for _, c := range l.cells {
			left := few
			c.waiting.Ascend(func(w *waiter) bool {
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
	}
	return len(l.waiters), first
}

// Request is what a node in service asks of the limits.
type Request struct {
	// Since is when the node became unready. Nodes that have been unready for longer come first.
	Since time.Time
	// Domains are those of the node, as Rule.Domains has them.
	Domains string
	// Held says that the node is held already, without room under the limits. A rate does not apply: it is about how many
	// nodes the rule begins to hold.
	Held bool
}

// Reserve asks whether the rule may hold a node. It returns why not, or "" if it may. A granted claim ends with Settle
// or Unreserve. It may be made now: the caller asks again before it tries again.
func (l *Limit) Reserve(n int32, r Request, now time.Time) (why string) {
	if granted, ok := l.reserved[n]; ok {
		if granted.until.IsZero() || inTime(granted.until, now) {
			return ""
		}
		l.Unreserve(n)
	}
	w := l.wait(n, r.Since, l.cell(r.Domains))
	if why = l.why(w.cell, claims); why != "" {
		return why
	}
	if why = l.rateWhy(claims, now); why != "" && !r.Held {
		return why
	}
	if !l.amongFirst(w, r.Held) {
		return "nodes that have been unready for longer are held first, as many as the limit allows (" + l.rule.String() + ")"
	}
	l.stopWaiting(n)
	granted := reservation{cell: w.cell}
	if !r.Held {
		granted.until = l.rates.spend(claims)
	}
	l.reserved[n] = granted
	w.cell.take(claims, 1)
	return ""
}

// Unreserve returns a granted claim that was not used.
func (l *Limit) Unreserve(n int32) {
	if r, ok := l.reserved[n]; ok {
		r.cell.take(claims, -1)
		delete(l.reserved, n)
		l.changed = true
	}
}

// amongFirst reports whether there is room for a waiting node after all that have been unready for longer, and that
// have room. Under a rate, only so many of them are before it as may be held now. held is that of the request.
func (l *Limit) amongFirst(w *waiter, held bool) bool {
	var taken []*cell
	defer func() {
		for _, c := range taken {
			c.take(claims, -1)
		}
	}()
	last := map[*cell]*waiter{}
	for {
		if held && l.rates.apply && len(taken) >= len(l.rates.issued[claims]) {
			return true
		}
		var next *waiter
		for c := range l.look[claims] {
			if c.waiting.Len() == 0 {
				delete(l.look[claims], c)
			} else if l.room(c, claims) {
				head := c.after(last[c])
				if head != nil && l.order(head, w) && (next == nil || l.order(head, next)) {
					next = head
				}
			}
		}
		if next == nil {
			e, _ := w.cell.full(claims)
			return e == nil
		}
		last[next.cell] = next
		next.cell.take(claims, 1)
		taken = append(taken, next.cell)
		if e, _ := w.cell.full(claims); e != nil || !held && l.rates.apply && len(taken) >= len(l.rates.issued[claims]) {
			return false
		}
	}
}

// after returns the waiting node that follows another one, or the first one for nil.
func (c *cell) after(last *waiter) (next *waiter) {
	if last == nil {
		next, _ = c.waiting.Min()
		return next
	}
	c.waiting.AscendGreaterOrEqual(last, func(w *waiter) bool {
		if w != last {
			next = w
		}
		return next == nil
	})
	return next
}

// ReserveFalse asks whether the condition that the rule publishes may become False on a node, because a remediator may
// delete such nodes. It returns why not, or "" if it may. Settle ends a grant.
func (l *Limit) ReserveFalse(n int32, domains string, now time.Time) (why string) {
	if _, ok := l.granted[n]; ok {
		return ""
	}
	c := l.cell(domains)
	if why = cmp.Or(l.why(c, marks), l.rateWhy(marks, now)); why != "" {
		l.denied[n] = c
		return why
	}
	l.rates.spend(marks)
	delete(l.denied, n)
	l.granted[n] = c
	c.take(marks, 1)
	return ""
}

// Wake appends the waiting nodes that the limits now allow, the longest unready first. They call Reserve or
// ReserveFalse again. A node that was woken before keeps its place until it does so, or until Settle.
func (l *Limit) Wake(nodes []int32) []int32 {
	if !l.changed || !l.rule.Set() {
		return nodes
	}
	l.changed = false
	nodes = l.wakeDenied(nodes)
	for len(l.waiters) > 0 && (!l.rates.apply || l.rates.woken < len(l.rates.issued[claims])) {
		var next *waiter
		for c := range l.look[wakes] {
			if head, ok := c.asleep.Min(); !ok {
				delete(l.look[wakes], c)
			} else if l.room(c, wakes) && (next == nil || l.order(head, next)) {
				next = head
			}
		}
		if next == nil {
			break
		}
		next.woken = true
		l.rates.woken++
		next.cell.asleep.Delete(next)
		next.cell.take(wakes, 1)
		nodes = append(nodes, next.node)
	}
	return nodes
}

// wakeDenied appends the nodes that wait for a mark and have room.
func (l *Limit) wakeDenied(nodes []int32) []int32 {
	if len(l.denied) == 0 {
		return nodes
	}
	var taken []*cell
	for _, n := range slices.Sorted(maps.Keys(l.denied)) {
		c := l.denied[n]
		if e, _ := c.full(marks); e != nil || l.rates.apply && len(taken) >= len(l.rates.issued[marks]) {
			continue
		}
		c.take(marks, 1)
		taken = append(taken, c)
		delete(l.denied, n)
		nodes = append(nodes, n)
	}
	for _, c := range taken {
		c.take(marks, -1)
		l.changed = true // others are woken next if these do not ask
	}
	return nodes
}

func few(names []string) string {
	slices.Sort(names)
	if more := len(names) - 3; more > 0 {
		names = append(slices.Clone(names[:3]), "...")
	}
	return strings.Join(names, ", ")
}
