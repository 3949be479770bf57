// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/btree"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// use is a reason why a node uses the limits.
type use int

const (
	claims use = iota // the rule holds the node, or may hold it
	marks             // the condition that the rule publishes is False, or may become so
	wakes             // as claims, and waiting nodes that were woken
	uses
)

// group counts the nodes by their domains, which are the values of one label. The first group of a limit has no label:
// all nodes are in one domain.
type group struct {
	key     string
	entries []entry
	domains map[string]*domain
	deleted int
	open    [uses]int // the number of domains that are in use
}

// entry is a limit of the rule, and its place there.
type entry struct {
	*v1alpha1.Limit
	index int
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
}

func (d *domain) held(u use) int { return d.taken[u] + d.deleted }

// change changes the counts, and keeps the number of domains in use.
func (d *domain) change(by int, count *int) {
	for u := range uses {
		if d.held(u) > 0 {
			d.group.open[u]--
		}
	}
	*count += by
	for u := range uses {
		if d.held(u) > 0 {
			d.group.open[u]++
		}
	}
}

// full returns the first entry that allows no further use in the domain, or nil.
func (d *domain) full(u use) *entry {
	for i := range d.group.entries {
		switch e := &d.group.entries[i]; {
		case e.MaxDomains == nil:
			if d.held(u) >= Scaled(e.Max, d.inService) {
				return e
			}
		case d.held(u) == 0 && d.group.open[u] >= int(*e.MaxDomains):
			return e
		}
	}
	return nil
}

// cell is the nodes that are in the same domains of all groups.
type cell struct {
	domains []*domain // one of each group
	// waiting are the refused nodes, the longest unready first, and of several the first by name. Asleep are those that
	// were not woken.
	waiting, asleep *btree.BTreeG[*waiter]
}

// take counts a use of the limits by a node of the cell, or ends it with -1.
func (c *cell) take(u use, by int) {
	for _, d := range c.domains {
		d.change(by, &d.taken[u])
		if u == claims {
			d.change(by, &d.taken[wakes])
		}
	}
}

// full returns the first entry that allows no further use by a node of the cell, and its domain, or nil.
func (c *cell) full(u use) (*entry, *domain) {
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
	return c.waiting.Len() == 0
}

// cell returns the cell of a node in some domains, as Rule.Domains has them.
func (l *Limit) cell(domains string) *cell {
	if c := l.cells[domains]; c != nil {
		return c
	}
	if len(l.cells) >= l.sweepAt {
		l.sweep()
	}
	c := &cell{waiting: btree.NewG(32, l.order), asleep: btree.NewG(32, l.order)}
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

// why says which limit keeps a node of the cell from being used, and in which domain. It returns "" if there is room.
func (l *Limit) why(c *cell, u use) string {
	e, d := c.full(u)
	if e == nil {
		return ""
	}
	what := "are held already"
	if u == marks {
		what = "are already False"
	}
	name, room := l.rule.name(e.index), ", and there is room when one of them is ready"
	switch {
	case e.MaxDomains != nil:
		var open []string
		for _, o := range d.group.domains {
			if o.held(u) > 0 {
				open = append(open, quoted(o.name))
			}
		}
		return fmt.Sprintf("nodes %s in as many domains of %s as %s allows (maxDomains: %d), %s, and "+
			"this node is in %s: there is room when all of one domain are ready",
			strings.TrimSuffix(what, " already"), d.group.key, name, *e.MaxDomains, few(open), quoted(d.name))
	case e.Per != "":
		return fmt.Sprintf("as many nodes of the domain %s of %s as %s allows (%s) %s%s", quoted(d.name), d.group.key,
			name, e.Max, what, room)
	}
	if l.rule.short {
		room = ""
	}
	return fmt.Sprintf("as many nodes as %s allows (%s) %s%s", name, e.Max, what, room)
}

// Reached says which limits keep nodes waiting, and in which domains.
func (l *Limit) Reached() []string {
	domains := map[int][]string{}
	for _, c := range l.cells {
		if e, d := c.full(claims); e != nil && c.waiting.Len() > 0 {
			domains[e.index] = append(domains[e.index], quoted(d.name))
		}
	}
	var out []string
	for _, i := range slices.Sorted(maps.Keys(domains)) {
		text := fmt.Sprintf("%s (%s)", l.rule.name(i), describe(&l.rule.entries[i]))
		if l.rule.entries[i].Per != "" {
			slices.Sort(domains[i])
			text += " in " + few(slices.Compact(domains[i]))
		}
		out = append(out, text)
	}
	return out
}

func quoted(domain string) string { return `"` + domain + `"` }
