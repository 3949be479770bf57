// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"
)

// Stumbled notes that a write about a node has failed, or may have: the nodes come before it that were unready by then.
func (m *Model) Stumbled(name string) {
	for _, h := range m.nodes {
		if h.last == nil || h.gone || h.last.Metadata.Name != name {
			continue
		}
		for _, u := range h.rules {
			u.failed = m.now()
		}
	}
}

// first: of the nodes that wait for the limit, the one that has been unready for longest is held first. turn: with
// limits by domain, or by rate, that is so of the nodes for which all limits have room.
func (m *Model) first(shown *node, r *rule, v *View) {
	mine := &m.node(shown.Metadata.UID).under(r.Metadata.UID).observed
	since := latest(mine.from, mine.yes, mine.unsure)
	for n := range v.nodes() {
		u := m.node(n.Metadata.UID).under(r.Metadata.UID)
		o := &u.observed
		if n.Metadata.UID == shown.Metadata.UID || u.waits != v.Process || m.got(n, r) ||
			!u.waited.Equal(latest(o.from, o.yes, o.unsure)) || !v.waits(n) ||
			!r.Spec.NodeSelector.matches(n.Metadata.Labels) || o.generation != r.Metadata.Generation ||
			!r.timed(n, no) || !r.timed(shown, no) ||
			m.skewed(n) || m.skewed(shown) || mine.yes.IsZero() || o.yes.IsZero() ||
			m.holds(n, r, v, false) != no {
			continue
		}
		predicate := "first"
		if r.Spec.byDomain() || r.Spec.rated() {
			if predicate = "turn"; !m.lost(n, shown, r, v) {
				continue
			}
		}
		m.check(predicate, !since.Add(-slack).After(latest(u.waited, u.failed, r.unready(n))),
			"rule %s holds node %s, and node %s has been unready for longer", r.Metadata.Name, shown.Metadata.Name,
			n.Metadata.Name)
	}
}

// unready is since when the conditions of a node say that a rule does not hold there. A condition that has changed from
// False to Unknown counts from then on.
func (r *rule) unready(n *node) (at time.Time) {
	for i := range r.Spec.Conditions {
		c := n.condition(r.Spec.Conditions[i].Type)
		if c.Status == r.Spec.Conditions[i].RequiredStatus {
			continue
		}
		if since := c.LastTransitionTime; at.IsZero() || (r.Spec.ConditionPolicy == "anyOf") == since.After(at) {
			at = since
		}
	}
	return at
}

// got reports whether a rule claims a node, as far as a replica or the server knows.
func (m *Model) got(n *node, r *rule) bool {
	h := m.node(n.Metadata.UID)
	return n.claim(r.Metadata.UID) != "" || h.last == nil || h.last.claim(r.Metadata.UID) != ""
}

// waits reports whether the limit decides about a node: not if an override does, or the node is cordoned or terminates.
func (v *View) waits(n *node) bool {
	return v.override(n) == "" && !n.Spec.Unschedulable && n.Metadata.DeletionTimestamp == nil
}

// lost reports whether the limits surely had room for a waiting node before another one was claimed, and surely have
// none now. most and least are the uses that there may be.
//
//nolint:gocyclo // one condition for each exception of the documentation
func (m *Model) lost(n, claimed *node, r *rule, v *View) bool {
	u, most, least := m.node(n.Metadata.UID).under(r.Metadata.UID), newUses(), newUses()
	if m.vacated(r, v) > 0 || n.labelled() != u.waitsIn || !u.roomy { // others may have been chosen before there was room
		return false
	}
	for uid, h := range m.nodes {
		if h.last == nil || h.gone || uid == claimed.Metadata.UID {
			continue
		}
		versions, of := []*node{h.last}, h.under(r.Metadata.UID)
		if o := read[node](v.Nodes[h.last.Metadata.Name]); o != nil && o.Metadata.UID == uid {
			versions = append(versions, o)
		}
		counts, claims := true, 0
		at, taken, all := versions[0].domains(r), map[string]bool{}, map[string]bool{}
		for _, o := range versions {
			counts = counts && o.labelled() == at && r.Spec.NodeSelector.matches(o.Metadata.Labels) && v.override(o) == "" &&
				!o.Spec.Unschedulable && o.Metadata.DeletionTimestamp == nil && m.inService(o, r) == yes
			mark(all, o.labelled(), o.domains(r))
			if o.claim(r.Metadata.UID) != "" {
				claims++
				mark(taken, o.labelled(), o.domains(r), of.at)
			} else if uid != n.Metadata.UID && (r.Spec.near(o.labelled(), u.waitsIn) || r.Spec.byDomains()) &&
				!latest(of.observed.from, of.observed.yes, of.observed.unsure).Add(-slack).After(u.waited) {
				return false // it may have a place already, and not its claim
			}
		}
		if counts {
			least.counts(at)
		}
		for d := range all {
			most.all[d]++
		}
		for d := range taken {
			most.taken[d]++
		}
		if claims == len(versions) && len(taken) == len(of.at.all()) && of.used && of.version == r.Metadata.Generation {
			least.take(of.at, true)
		}
	}
	after := claimed.domains(r)
	most.counts(after)
	for _, l := range r.Spec.limits() {
		if l.Per != "" && l.reached(u.waitsIn, most, least, most) {
			return false
		}
	}
	most.take(after, true)
	least.take(after, true)
	return slices.ContainsFunc(r.Spec.limits(), func(l limit) bool {
		if l.WithinSeconds > 0 { // a node that Hold held needs no room under a rate
			return !m.node(claimed.Metadata.UID).under(r.Metadata.UID).granted &&
				m.made(r, time.Duration(l.WithinSeconds)*time.Second, v.Now)+1 >= allowed(l.Max, 0)
		}
		return l.reached(u.waitsIn, least, most, most)
	})
}

// mark adds all domains to a set.
func mark(set map[string]bool, of ...domains) {
	for _, at := range of {
		for _, d := range at.all() {
			set[d] = true
		}
	}
}

// near reports whether two nodes are in the same domain of a limit.
func (s *spec) near(a, b domains) bool {
	return slices.ContainsFunc(domainKeys, func(key string) bool { return s.per(key) && a.of(key) == b.of(key) })
}

// made is how many claims a rule has surely made within a time, that use a rate.
func (m *Model) made(r *rule, within time.Duration, now time.Time) (n int) {
	h := m.rules[r.Metadata.UID]
	for _, t := range h.times["claims"] {
		if t.After(now.Add(slack - within)) {
			n++
		}
	}
	return n
}

// reached reports whether a limit leaves no room in a domain, by what is taken, by the nodes that it is a share of, and
// by what may be taken in the domain.
func (l *limit) reached(at domains, taken, of, perhaps *uses) bool {
	d := at.of(l.Per)
	if l.MaxDomains != nil {
		return perhaps.taken[d] == 0 && taken.open(l.Per) >= *l.MaxDomains || taken.open(l.Per) > *l.MaxDomains
	}
	return taken.taken[d] >= allowed(l.Max, of.all[d])
}
