// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"slices"

	"github.com/google/btree"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Use is a reason why a node uses the limits.
type Use int

const (
	// Claims says that the rule holds the node, or may hold it.
	Claims Use = iota
	// Marks says that the condition that the rule publishes is False on the node, or may become so.
	Marks

	kinds
	uses = 2 * kinds // each kind also with the waiting nodes that were woken
)

// woken returns the use that also counts the waiting nodes that were woken.
func (u Use) woken() Use { return u + kinds }

// group counts the nodes by their domains, which are the values of one label. The first group of a limit has no label:
// all nodes are in one domain.
type group struct {
	limit   *Limit
	key     string
	entries []entry
	domains map[string]*domain
	deleted int
	open    [uses]int // the number of domains that are in use
	blocked blocked   // by the number of domains
}

// entry is a limit of the rule, and its place there.
type entry struct {
	*v1alpha1.Limit
	index int
	// number is max, and percent whether it is a percentage.
	number  int
	percent bool
}

func newEntry(of *v1alpha1.Limit, index int) entry {
	e := entry{Limit: of, index: index}
	if of.Max != nil {
		e.number, e.percent = Scaled(of.Max, 100), of.Max.Type == intstr.String
	}
	return e
}

// allows returns how many of the nodes in service the entry allows.
func (e *entry) allows(inService int) int {
	if e.percent {
		return (e.number*inService + 99) / 100
	}
	return e.number
}

// allows returns how many of the nodes in service the entry allows in all domains together.
func (g *group) allows(e *entry) (n int) {
	var each []int
	for _, d := range g.domains {
		most := d.inService
		if e.MaxDomains == nil {
			most = min(most, e.allows(most))
		}
		each = append(each, most)
	}
	if e.MaxDomains != nil && int(*e.MaxDomains) < len(each) { // the largest
		slices.Sort(each)
		each = each[len(each)-int(*e.MaxDomains):]
	}
	for _, most := range each {
		n += most
	}
	return n
}

// blocked are the first waiting nodes of cells that had no room for a use when it was last looked. So the limits of
// many domains cost no more than one.
type blocked [uses]*btree.BTreeG[*waiter]

// release lets the node that was unready for longest be looked at again, because there may be room.
func (b *blocked) release(l *Limit, u Use) bool {
	if b[u] == nil || b[u].Len() == 0 {
		return false
	}
	w, _ := b[u].DeleteMin()
	l.offer(w, u, &l.heads)
	return true
}

// domain counts the nodes of one domain.
type domain struct {
	name  string
	group *group
	// inService counts the nodes that the limits are a share of, and inUse those that use a place.
	inService, inUse int
	// taken counts the nodes that use the limit, and deleted the places of deleted nodes.
	taken   [uses]int
	deleted int
	blocked blocked // by the number of nodes
}

func (d *domain) held(u Use) int { return d.taken[u] + d.deleted }

// others returns how many other domains are in use. If these are as many as a limit allows, no node is added to a
// domain that is in use, either: the limit was lowered, or only the place of a deleted node, which counts for both
// uses, keeps the domain in use.
func (d *domain) others(u Use) int {
	if d.held(u) > 0 {
		return d.group.open[u] - 1
	}
	return d.group.open[u]
}

// change changes a count of a use, and keeps the number of domains in use.
func (d *domain) change(u Use, by int, count *int) {
	before := d.held(u)
	*count += by
	after := d.held(u)
	switch {
	case before == 0 && after > 0:
		d.group.open[u]++
	case before > 0 && after == 0:
		d.group.open[u]--
	}
	for (before > 0) != (after > 0) && d.group.blocked.release(d.group.limit, u) {
	}
	if by < 0 {
		d.blocked.release(d.group.limit, u)
	}
}

// serve counts nodes that the limits are a share of.
func (d *domain) serve(by int) {
	d.inService += by
	for u := range uses {
		d.blocked.release(d.group.limit, u)
	}
}

// full returns the first entry that allows no further use in the domain, or nil.
func (d *domain) full(u Use) *entry {
	for i := range d.group.entries {
		switch e := &d.group.entries[i]; {
		case e.MaxDomains == nil:
			if d.held(u) >= e.allows(d.inService) {
				return e
			}
		case d.others(u) >= int(*e.MaxDomains):
			return e
		}
	}
	return nil
}

// cell is the nodes that are in the same domains of all groups.
type cell struct {
	name    string
	domains []*domain // one of each group
	// waiting are the refused nodes, the longest unready first, and of several the first by name; of a use that counts
	// those that were woken, the others. head is the one of them that has its turn, and listed the tree that has it.
	waiting [uses]*btree.BTreeG[*waiter]
	head    [uses]*waiter
	listed  [uses]*btree.BTreeG[*waiter]
}

// take counts a use of the limits by a node of the cell, or ends it with -1.
func (c *cell) take(u Use, by int) {
	for _, d := range c.domains {
		d.change(u, by, &d.taken[u])
		if u < kinds {
			d.change(u.woken(), by, &d.taken[u.woken()])
		}
	}
}

// full returns the first entry that allows no further use by a node of the cell, and its domain, or nil.
func (c *cell) full(u Use) (*entry, *domain) {
	for _, d := range c.domains {
		if e := d.full(u); e != nil {
			return e, d
		}
	}
	return nil, nil
}

// idle reports whether nothing is counted in the cell.
func (c *cell) idle() bool {
	for _, d := range c.domains[1:] {
		if d.inService != 0 || d.inUse != 0 || d.deleted != 0 || d.taken != [uses]int{} {
			return false
		}
	}
	return c.waiting[Claims].Len()+c.waiting[Marks].Len() == 0
}

// cell returns the cell of a node in some domains, as Rule.Domains has them.
func (l *Limit) cell(domains string) *cell {
	if c := l.cells[domains]; c != nil {
		return c
	}
	if len(l.cells) >= l.sweepAt {
		l.sweep()
	}
	c := &cell{name: domains}
	for u := range c.waiting {
		c.waiting[u] = l.tree()
	}
	for _, g := range l.groups {
		name, _ := valueIn(domains, g.key)
		d := g.domains[name]
		if d == nil {
			d = &domain{name: name, group: g}
			g.domains[name] = d
		}
		c.domains = append(c.domains, d)
	}
	l.cells[domains] = c
	return c
}

// sweep drops the cells and domains in which nothing is counted: nodes and their labels come and go.
func (l *Limit) sweep() {
	live := map[*domain]bool{}
	for name, c := range l.cells {
		if c != l.base && c.idle() {
			delete(l.cells, name)
			continue
		}
		for _, d := range c.domains {
			live[d] = true
		}
	}
	for _, g := range l.groups[1:] {
		for name, d := range g.domains {
			if !live[d] && d.deleted == 0 {
				delete(g.domains, name)
			}
		}
	}
	l.sweepAt = 2*len(l.cells) + 64
}
