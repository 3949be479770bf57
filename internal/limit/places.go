// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// # The places of a limit
//
// A node uses a place while the rule holds it, if it is in service, and while the published condition is False on it.
// The place of a node that is deleted meanwhile stays in use, in the same domains. Otherwise a remediator that deletes
// such nodes, and a broken reporter, would take away the whole fleet, one node after another.
//
//	          held, or False              deleted              a new node becomes ready under the rule, or
//	┌──────┐ ───────────────► ┌────────┐ ─────────► ┌─────────┐ an hour after the last deletion no node waits
//	│ Free │                  │ In use │            │ Deleted │ ─────────────────────────────────────────────► Free
//	└──────┘ ◄─────────────── └────────┘            └─────────┘
//	          released, or True
//
// In a domain, only nodes that wait there keep the places, unless a limit is about the number of domains.
// While a write may have used a place, without an answer that says so, the place is in use.
// All places of deleted nodes are free after a change of the selector, and while the rule is in dry-run or suspended.

// placeKept is how long the places of deleted nodes stay in use at least, if no new node becomes ready.
const placeKept = time.Hour

// place reports whether the node uses a place.
func (n Node) place() bool { return n.Counted && n.Claimed || n.Marked }

// Delete keeps the place of a node that is deleted. If the outcome of the last write to it is not known, a granted use
// may be on the node.
func (l *Limit) Delete(n int32, node Node, now time.Time) {
	c, used := l.at(n, l.base), node.place()
	for u := range l.lines {
		if g := l.lines[u].granted[n]; !used && !g.unknown.IsZero() {
			c, used = g.cell, true
		}
	}
	if !l.kept || !used {
		return
	}
	for _, d := range c.domains {
		d.vacate(1)
	}
	l.deletedAt = now
}

// vacate counts places of deleted nodes.
func (d *domain) vacate(by int) {
	for u := range uses { // each counts them
		d.change(u, by, &d.deleted)
		d.deleted -= by
	}
	d.deleted += by
	d.group.deleted += by
}

// Succeed frees the place of a deleted node, because a new node has become ready under the rule: one in the same
// domain, or else any.
func (l *Limit) Succeed(domains string) {
	if l.all.deleted == 0 {
		return
	}
	l.changed = true
	for i, d := range l.cell(domains).domains {
		if g := l.groups[i]; d.deleted == 0 && g.deleted > 0 {
			for _, o := range g.domains {
				if o.deleted > 0 && (d.deleted == 0 || o.name < d.name) {
					d = o
				}
			}
		}
		if d.deleted > 0 {
			d.vacate(-1)
		}
	}
	if l.all.deleted == 0 {
		l.free(func(*domain) bool { return true })
	}
}

// free frees the places of deleted nodes in some domains.
func (l *Limit) free(in func(*domain) bool) (freed bool) {
	for _, g := range slices.Backward(l.groups) { // all nodes last
		for _, d := range g.domains {
			if d.deleted > 0 && in(d) {
				d.vacate(-d.deleted)
				l.changed, freed = true, true
			}
		}
	}
	if l.all.deleted == 0 {
		l.deletedAt = time.Time{}
	}
	return freed
}

// FreePlaces frees the places of deleted nodes if their time is over and they keep no node waiting, and those of uses
// that no longer may be there, by the time of Settle. It returns whether it did, and when to call it again, or 0 if
// nothing changes by the passage of time.
func (l *Limit) FreePlaces(now time.Time) (freed bool, again time.Duration) {
	freed, again = l.freeDeleted(now)
	for u := range kinds {
		for n, g := range l.lines[u].granted {
			if g.unknown.After(now) { // the clock was set back meanwhile
				g.unknown = now
				l.lines[u].granted[n] = g
			}
			switch left := g.unknown.Add(unknownKept).Sub(now); {
			case g.unknown.IsZero() || g.asked:
			case left <= 0:
				l.end(u, n, false)
				freed = true
			case again == 0 || left < again:
				again = left
			}
		}
	}
	return freed, again
}

// onlySum reports whether no limit counts the places of deleted nodes: their domains are not known, or free.
func (l *Limit) onlySum() bool {
	counts := func(g *group) bool { return g.deleted > 0 }
	return len(l.all.group.entries) == 0 && !slices.ContainsFunc(l.groups[1:], counts)
}

func (l *Limit) freeDeleted(now time.Time) (freed bool, again time.Duration) {
	if l.all.deleted == 0 {
		return false, 0
	}
	if l.deletedAt.After(now) { // the clock was set back meanwhile
		l.deletedAt = now
	}
	if again = l.deletedAt.Add(placeKept).Sub(now); again > 0 {
		return false, again
	}
	waiting := map[*domain]bool{}
	for u := range l.lines {
		for _, w := range l.lines[u].waiters {
			for _, d := range w.cell.domains {
				waiting[d] = true
			}
		}
	}
	return l.free(func(d *domain) bool {
		switch {
		case d == l.all && len(d.group.entries) == 0:
			return l.onlySum()
		case slices.ContainsFunc(d.group.entries, func(e entry) bool { return e.MaxDomains != nil }):
			return !waiting[l.all]
		}
		return !waiting[d]
	}), 0
}

// Restore reads the places of deleted nodes from the rule's status. All nodes have been counted. A place that is no
// longer in use was that of a deleted node. gone is how many nodes there may be that were deleted since. later are the
// nodes that have begun to use a place since.
func (l *Limit) Restore(status *v1alpha1.LimitStatus, gone int, later []int32, now time.Time) {
	if !l.kept {
		return
	}
	l.restore("", "", int(status.Deleted))
	if at := status.LastDeletionTime; at != nil {
		l.deletedAt = at.Time
	}
	began := map[*domain]int{}
	for _, n := range later {
		for _, d := range l.at(n, l.base).domains {
			began[d]++
		}
	}
	lost := max(0, min(int(status.InUse)-l.all.inUse+began[l.all], gone))
	if lost > 0 {
		l.restore("", "", lost)
		l.deletedAt = now
	}
	for i := range status.Domains {
		s := &status.Domains[i]
		inUse := 0
		if g := l.group(s.Per); g != nil && g.domains[s.Domain] != nil {
			inUse = g.domains[s.Domain].inUse - began[g.domains[s.Domain]]
		}
		l.restore(s.Per, s.Domain, int(s.Deleted)+max(0, min(int(s.InUse)-inUse, lost)))
	}
}

// restore adds places of deleted nodes in a domain, if the rule still has a limit for it.
func (l *Limit) restore(key, name string, places int) {
	g := l.group(key)
	if g == nil || places == 0 {
		return
	}
	d := g.domains[name]
	if d == nil {
		d = &domain{name: name, group: g}
		g.domains[name] = d
	}
	d.vacate(places)
}

func (l *Limit) group(key string) *group {
	i := slices.IndexFunc(l.groups, func(g *group) bool { return g.key == key })
	if i < 0 {
		return nil
	}
	return l.groups[i]
}

// Status returns the uses of the limits for the rule's status, or nil if they do not count.
func (l *Limit) Status() *v1alpha1.LimitStatus {
	if !l.kept {
		return nil
	}
	all := l.all
	out := &v1alpha1.LimitStatus{InUse: int32(all.inUse), Deleted: int32(all.deleted)} //nolint:gosec // of nodes
	if !l.deletedAt.IsZero() {
		out.LastDeletionTime = &metav1.Time{Time: l.deletedAt.Truncate(time.Second)}
	}
	waiting := map[*domain]int{}
	for _, w := range l.lines[Claims].waiters {
		for _, d := range w.cell.domains {
			waiting[d]++
		}
	}
	for _, g := range l.groups[1:] {
		for _, d := range g.domains {
			if d.inUse+d.deleted+waiting[d] > 0 || d.name == "" && d.inService > 0 {
				//nolint:gosec // of nodes
				out.Domains = append(out.Domains, v1alpha1.DomainStatus{Per: g.key, Domain: d.name,
					InService: int32(d.inService), InUse: int32(d.inUse), Deleted: int32(d.deleted), Waiting: int32(waiting[d])})
			}
		}
	}
	slices.SortFunc(out.Domains, func(a, b v1alpha1.DomainStatus) int {
		return cmp.Or(cmp.Compare(b.Deleted, a.Deleted), cmp.Compare(b.InUse, a.InUse), cmp.Compare(b.Waiting, a.Waiting),
			strings.Compare(a.Per, b.Per), strings.Compare(a.Domain, b.Domain))
	})
	out.Domains = out.Domains[:min(len(out.Domains), v1alpha1.MaxDomainsListed)]
	return out
}
