// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"time"

	"github.com/google/btree"
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
	lines   [kinds]line
	// heads has the first waiting nodes of cells that may have room for a use. Of those that a domain has blocked, it has
	// the one that was unready for longest, if the domain has room.
	heads blocked
	trees *btree.FreeListG[*waiter]
	// changed says that there may be room for waiting nodes since the last Wake.
	changed bool

	rates rates // if a limit is a rate, and the rule is enforced

	kept      bool // the places of deleted nodes count
	deletedAt time.Time
}

// line has the nodes that ask for a use.
type line struct {
	// granted are the nodes that may use the limits, and on which this process has not seen that yet.
	granted map[int32]grant
	// waiters are the refused nodes. Each is in the trees of its cell, too.
	waiters map[int32]*waiter
	// failed is when the last write for a granted use has failed. The node comes after those that have been unready before
	// that: otherwise a node that cannot be written would always be the next.
	failed map[int32]time.Time
}

// grant is a use that was granted. If a limit is a rate, it may be made until a time.
type grant struct {
	cell  *cell
	until time.Time
	// unknown is when a write last failed whose outcome is not known: the use may be on the node, but not on this version
	// of the node, which the cache had. Zero: there was no such write.
	unknown time.Time
	version string
	// asked says that the node may use it now: a write may be under way.
	asked bool
}

// unknownKept is how long a use stays granted after a write whose outcome is not known, if the cache shows no newer
// version of the node. It is longer than a cache that has lost its watch is usually behind.
const unknownKept = time.Minute

// mayBeThere reports whether the use may be on the node, although this version of the node does not show it.
func (g grant) mayBeThere(version string, now time.Time) bool {
	return g.version == version && now.Before(g.unknown.Add(unknownKept))
}

// New returns the state of limits that count no node. kept says that the places of deleted nodes count. before is the
// order of two nodes by name.
func New(rule Rule, kept bool, before func(a, b int32) bool) *Limit {
	l := &Limit{rule: rule, cells: map[string]*cell{}, sweepAt: 64, trees: btree.NewFreeListG[*waiter](32), changed: true,
		kept: kept && rule.Set(), rates: rates{apply: kept && rule.Rated()},
		order: func(a, b *waiter) bool {
			return a.since.Before(b.since) || a.since.Equal(b.since) && before(a.node, b.node)
		}}
	for u := range l.lines {
		l.lines[u] = line{map[int32]grant{}, map[int32]*waiter{}, map[int32]time.Time{}}
	}
	for u := range l.heads {
		l.heads[u] = l.tree()
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

func (l *Limit) tree() *btree.BTreeG[*waiter] { return btree.NewWithFreeListG(32, l.order, l.trees) }

// Inherit takes over what an earlier version of the rule has granted, and its waiting nodes. same says that it selected
// the same nodes, so that the places of deleted nodes still count. All nodes have been counted.
func (l *Limit) Inherit(from *Limit, same bool) {
	l.changed = true
	for u := range kinds {
		before := &from.lines[u]
		for n, g := range before.granted {
			g.cell = l.at(n, g.cell)
			l.grant(u, n, g)
		}
		for n, w := range before.waiters {
			if l.rule.Set() {
				l.wait(u, n, w.since, l.at(n, w.cell))
			}
		}
		l.lines[u].failed = before.failed
	}
	if l.rule.sameRates(from.rule) {
		l.rates.tickets, l.rates.wanting = from.rates.tickets, from.rates.wanting
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
	if l.onlySum() {
		l.free(func(*domain) bool { return true })
	}
}

// at returns the cell of a node. If the node is not counted, it is where an earlier version of the rule has granted a
// use to it.
func (l *Limit) at(n int32, before *cell) *cell {
	if int(n) < len(l.places) && l.places[n] != nil {
		return l.places[n]
	}
	return l.cell(before.name)
}

// InService returns the number of nodes that the limits are a share of.
func (l *Limit) InService() int { return l.all.inService }

// Allowed returns how many nodes in service the rule may hold at a time: no limit alone allows more.
func (l *Limit) Allowed() int {
	most := l.rule.Of(l.InService())
	for _, g := range l.groups[1:] {
		for i := range g.entries {
			most = min(most, g.allows(&g.entries[i]))
		}
	}
	return most
}

// Recount counts a node that has changed, and now is in some domains. It reports whether these are others than before.
func (l *Limit) Recount(n int32, was, is Node, domains string) (moved bool) {
	from := l.at(n, l.base)
	to := from
	if is != (Node{}) && len(l.rule.keys) > 0 {
		to = l.cell(domains)
		if missing := int(n) + 1 - len(l.places); missing > 0 {
			l.places = append(l.places, make([]*cell, missing)...)
		}
		l.places[n] = to
	}
	if was == is && from == to {
		return false
	}
	l.changed = true
	from.count(was, -1)
	to.count(is, 1)
	if is == (Node{}) && int(n) < len(l.places) {
		l.places[n] = nil
	}
	return from != to
}

func (c *cell) count(node Node, by int) {
	if node.Marked {
		c.take(Marks, by)
	}
	if node.Counted && node.Claimed {
		c.take(Claims, by)
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

// Request is what a node asks of the limits.
type Request struct {
	Use Use
	// Since is when the node became unready, by its evidence: the order of the nodes of which the operator learns at once,
	// or after a restart, is the same. Nodes that have been unready for longer come first.
	Since time.Time
	// Domains are those of the node, as Rule.Domains has them.
	Domains string
	// Held says that the node is held already, without room under the limits. A rate does not apply: it is about how many
	// nodes the rule begins to hold.
	Held bool
	// Peek only asks whether there is room. Nothing is granted, and the node does not wait. So no time is written for it,
	// and a rate does not apply.
	Peek bool
}

// Reserve asks whether a node may use the limits. It returns why not, or "" if it may. Settle ends a grant. It may be
// used now: the caller asks again before it tries again.
func (l *Limit) Reserve(n int32, r Request, now time.Time) (why string) {
	if r.Peek {
		return l.Why(r.Use, r.Domains)
	}
	g, granted := l.lines[r.Use].granted[n]
	if !granted {
		return l.reserve(n, r, now)
	}
	if g.until.IsZero() || inTime(g.until, now) {
		g.asked = true
		l.lines[r.Use].granted[n] = g
		return ""
	}
	l.end(r.Use, n, false)
	if why = l.reserve(n, r, now); why != "" && !g.unknown.IsZero() { // Settle ends it
		l.grant(r.Use, n, g)
	}
	return why
}

// InTime reports whether a node may still use what it was granted, if anything.
func (l *Limit) InTime(u Use, n int32, now time.Time) bool {
	until := l.lines[u].granted[n].until
	return until.IsZero() || inTime(until, now)
}

func (l *Limit) reserve(n int32, r Request, now time.Time) (why string) {
	line := &l.lines[r.Use]
	if failed := line.failed[n]; failed.After(r.Since) {
		r.Since = failed
	}
	before, c := line.waiters[n], l.cell(r.Domains)
	woken := before != nil && before.woken && before.cell == c
	w := l.wait(r.Use, n, r.Since, c)
	if why = l.why(c, r.Use); why != "" {
		return why
	}
	if why = l.rateWhy(r.Use, now); why != "" && !r.Held {
		return why
	}
	if !woken && !l.amongFirst(w, r) {
		return "nodes that have been unready for longer are held first, as many as the limit allows (" + l.rule.String() + ")"
	}
	l.stopWaiting(r.Use, n)
	g := grant{cell: c}
	if !r.Held {
		g.until = l.rates.spend(r.Use)
	}
	l.grant(r.Use, n, g)
	return ""
}

func (l *Limit) grant(u Use, n int32, g grant) {
	g.cell.take(u, 1)
	l.lines[u].granted[n] = g
}

// Fate is what is known of a use of the limits by a node after a decision about it. The zero value says that a granted
// use is on the node, or is not needed.
type Fate struct {
	// Refused says that the limits do not allow it: the node waits.
	Refused bool
	// Unknown says that the outcome of the last write is not known. A granted use may or may not be on the node, and stays
	// granted until a decision about a newer version of the node, for unknownKept at most.
	Unknown bool
	// Unwritten says that a granted use was certainly not written: the API server has refused that, or the node has no
	// room for the record.
	Unwritten bool
}

// Settle ends a node's grants and its waiting, depending on the decision about a version of it, which is empty for a
// deleted node.
func (l *Limit) Settle(n int32, version string, claim, mark Fate, now time.Time) {
	for u, f := range [kinds]Fate{claim, mark} {
		l.settle(Use(u), n, version, f, now)
	}
}

func (l *Limit) settle(u Use, n int32, version string, f Fate, now time.Time) {
	line := &l.lines[u]
	g, granted := line.granted[n]
	switch {
	case f.Unknown && granted:
		g.unknown, g.version = now, version
		line.failed[n] = now
	case f.Unwritten && granted:
		line.failed[n] = now
	case !f.Refused && !f.Unknown && !f.Unwritten:
		delete(line.failed, n)
	}
	switch kept := f.Unknown || g.mayBeThere(version, now); {
	case !kept:
		l.end(u, n, f.Unwritten)
	case granted:
		g.asked = false
		line.granted[n] = g
	}
	if !f.Refused {
		l.stopWaiting(u, n)
	}
}

// end ends a grant. If it was certainly not used, its turn under a rate goes to another node.
func (l *Limit) end(u Use, n int32, unused bool) {
	g, ok := l.lines[u].granted[n]
	if !ok {
		return
	}
	g.cell.take(u, -1)
	delete(l.lines[u].granted, n)
	l.changed = true
	if unused && g.unknown.IsZero() {
		l.rates.giveBack(u, g.until)
	}
}
