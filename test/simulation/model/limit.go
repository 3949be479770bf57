// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// limit: a new claim on a node in service leaves no more of them claimed than maxUnavailable allows. It reports whether
// the claim used the limit: then it counts until it is released, even if the node is cordoned.
//
//nolint:gocyclo // one condition for each exception of the documentation
func (m *Model) limit(shown *node, r *rule, v *View) bool {
	if !r.Spec.limited() || v.override(shown) == "Hold" || m.inService(shown, r) != yes ||
		shown.Spec.Unschedulable || v.edited(r, 0) || m.hasFull(r, v) {
		return false
	}
	claimed, all, in := 0, 0, newUses()
	for n := range each[node](v.Nodes) {
		h := m.node(n.Metadata.UID)
		u := h.under(r.Metadata.UID)
		matches := r.Spec.NodeSelector.matches(n.Metadata.Labels)
		if !matches && (h.last == nil || !r.Spec.NodeSelector.matches(h.last.Metadata.Labels)) {
			continue
		}
		all++ // a node that has just been cordoned or relabelled may count still
		in.count(n)
		if h.last != nil && h.last.Metadata.Labels[rackLabel] != n.Metadata.Labels[rackLabel] {
			in.count(h.last)
		}
		if !matches || (n.Spec.Unschedulable || n.Metadata.DeletionTimestamp != nil) && !u.used {
			continue
		}
		now := h.last != nil && h.last.claim(r.Metadata.UID) != ""
		if now && m.inService(n, r) == yes && v.override(n) == "" && !u.forced &&
			(u.claimer == v.Process || n.claim(r.Metadata.UID) != "" && (!u.granted || n.record(r.Metadata.UID).Limited)) {
			claimed++
			if u.version == r.Metadata.Generation {
				in.take(u.rack, true)
				in.counts(u.rack)
			}
		}
	}
	if v.Ahead >= 0 { // else the times of two nodes may both be in the future
		m.first(shown, r, v)
	}
	if v.share(r) {
		return true
	}
	kept := m.keptPlaces(r, v)
	rack := shown.rack(r)
	for _, l := range r.Spec.limits() {
		switch {
		case l.WithinSeconds > 0:
		case l.MaxDomains != nil:
			m.check("domains", len(in.taken) <= *l.MaxDomains, "rule %s claims nodes in service of %d racks, by node %s",
				r.Metadata.Name, len(in.taken), shown.Metadata.Name)
		case l.Per != "":
			m.check("domains", in.taken[rack] <= allowed(l.Max, in.all[rack]),
				"rule %s claims %d nodes in service of %d of rack %q, by node %s", r.Metadata.Name, in.taken[rack], in.all[rack],
				rack, shown.Metadata.Name)
		default:
			if kept > 0 {
				m.check("places", claimed+kept <= allowed(l.Max, all),
					"rule %s claims %d nodes in service, by node %s, and %d that are deleted use its limit", r.Metadata.Name,
					claimed, shown.Metadata.Name, kept)
			}
			m.check("limit", claimed <= allowed(l.Max, all), "rule %s claims %d nodes in service of %d, by node %s",
				r.Metadata.Name, claimed, all, shown.Metadata.Name)
		}
	}
	return true
}

// forced: when the override Hold has ended, a node in service is held only if it has a place under the limit.
func (m *Model) forced(r *rule, v *View) {
	if !r.Spec.limited() || !r.Spec.enforced() || r.Metadata.DeletionTimestamp != nil || v.frozen(r) != "" {
		return
	}
	for n := range each[node](v.Nodes) {
		u := m.node(n.Metadata.UID).under(r.Metadata.UID)
		m.check("limit", !u.forced || n.claim(r.Metadata.UID) == "" || v.override(n) != "" || n.Spec.Unschedulable ||
			n.Metadata.DeletionTimestamp != nil || !r.Spec.NodeSelector.matches(n.Metadata.Labels) ||
			m.inService(n, r) != yes, "rule %s holds node %s, whose override has ended, without a place", r.Metadata.Name,
			n.Metadata.Name)
	}
}

// first: of the nodes that wait for the limit, the one that has been unready for longest is held first.
func (m *Model) first(shown *node, r *rule, v *View) {
	if m.wrong() { // what was reported at a time in the future counts from its arrival
		return
	}
	mine := &m.node(shown.Metadata.UID).under(r.Metadata.UID).observed
	since := latest(mine.from, mine.yes, mine.unsure)
	for n := range each[node](v.Nodes) {
		u := m.node(n.Metadata.UID).under(r.Metadata.UID)
		o := &u.observed
		if n.Metadata.UID == shown.Metadata.UID || u.waits != v.Process || n.claim(r.Metadata.UID) != "" ||
			!u.waited.Equal(latest(o.from, o.yes, o.unsure)) || !v.waits(n) ||
			!r.Spec.NodeSelector.matches(n.Metadata.Labels) || o.generation != r.Metadata.Generation ||
			!r.timed(n, no) || !r.timed(shown, no) ||
			m.skewed(n) || m.skewed(shown) || mine.yes.IsZero() || o.yes.IsZero() ||
			m.holds(n, r, v, false) != no || r.Spec.byRack() && !m.lost(n, shown, r, v) {
			continue
		}
		m.check("first", !since.Add(-slack).After(u.waited), "rule %s holds node %s, and node %s has been unready for longer",
			r.Metadata.Name, shown.Metadata.Name, n.Metadata.Name)
	}
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
	if m.vacated(r, v) || n.Metadata.Labels[rackLabel] != u.waitsIn {
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
		rack, racks, all := versions[0].rack(r), map[string]bool{}, map[string]bool{}
		for _, o := range versions {
			label := o.Metadata.Labels[rackLabel]
			counts = counts && label == rack && r.Spec.NodeSelector.matches(o.Metadata.Labels) && v.override(o) == "" &&
				!o.Spec.Unschedulable && o.Metadata.DeletionTimestamp == nil && m.inService(o, r) == yes
			all[label], all[o.rack(r)] = true, true
			if o.claim(r.Metadata.UID) != "" {
				claims++
				racks[label], racks[o.rack(r)], racks[of.rack] = true, true, true
			} else if uid != n.Metadata.UID && (label == u.waitsIn || r.Spec.byDomains()) &&
				!latest(of.observed.from, of.observed.yes, of.observed.unsure).Add(-slack).After(u.waited) {
				return false // it may have a place already, and not its claim
			}
		}
		if counts {
			least.counts(rack)
		}
		for rack := range all {
			most.counts(rack)
		}
		for rack := range racks {
			most.take(rack, true)
		}
		if claims == len(versions) && len(racks) == 1 && of.used && of.version == r.Metadata.Generation {
			least.take(rack, true)
		}
	}
	after := claimed.rack(r)
	most.all[after]++
	for _, l := range r.Spec.limits() {
		if l.Per != "" && l.reached(u.waitsIn, most, least, most) {
			return false
		}
	}
	most.take(after, true)
	least.take(after, true)
	return slices.ContainsFunc(r.Spec.limits(), func(l limit) bool { return l.reached(u.waitsIn, least, most, most) })
}

// reached reports whether a limit leaves no room in a rack, by what is taken, by the nodes that it is a share of, and
// by what may be taken in the rack.
func (l *limit) reached(rack string, taken, of, perhaps *uses) bool {
	switch {
	case l.WithinSeconds > 0:
		return allowed(l.Max, 0) == 1 // a rate of several may have let both be held
	case l.MaxDomains != nil:
		return perhaps.taken[rack] == 0 && len(taken.taken) >= *l.MaxDomains
	case l.Per != "":
		return taken.taken[rack] >= allowed(l.Max, of.all[rack])
	}
	return sum(taken.taken) >= allowed(l.Max, sum(of.all))
}

func sum(counts map[string]int) (n int) {
	for _, of := range counts {
		n += of
	}
	return n
}

// share reports whether a limit is a percentage of a number that may include nodes that are gone.
func (v *View) share(r *rule) bool {
	return v.Leaving && slices.ContainsFunc(r.Spec.limits(),
		func(l limit) bool { return strings.Contains(string(l.Max), "%") })
}

const rackLabel = "example.com/rack"

// limit is an entry of limits. The domains are racks.
type limit struct {
	Max           json.RawMessage
	Per           string
	MaxDomains    *int
	WithinSeconds int
}

// limits are those of a rule, of which maxUnavailable is one.
func (s *spec) limits() []limit {
	if s.MaxUnavailable != nil {
		return []limit{{Max: s.MaxUnavailable}}
	}
	return s.Limits
}

func (s *spec) limited() bool { return s.MaxUnavailable != nil || len(s.Limits) > 0 }

func (s *spec) byRack() bool {
	return slices.ContainsFunc(s.limits(), func(l limit) bool { return l.Per != "" })
}

func (s *spec) byDomains() bool {
	return slices.ContainsFunc(s.limits(), func(l limit) bool { return l.MaxDomains != nil })
}

func (s *spec) rated() bool {
	return slices.ContainsFunc(s.limits(), func(l limit) bool { return l.WithinSeconds > 0 })
}

// counted notes in which rack a claim counts until it is released: the node may be moved meanwhile.
func (u *underRule) counted(shown *node, r *rule) {
	u.rack, u.version = shown.rack(r), r.Metadata.Generation
}

// rack is the rack in which a limit counts a node: that of its record, or else that of its label.
func (n *node) rack(r *rule) string {
	if _, of, ok := strings.Cut(n.record(r.Metadata.UID).Domains, rackLabel+"="); ok {
		return of
	}
	return n.Metadata.Labels[rackLabel]
}

// uses count the nodes of each rack that use a limit, some of them surely, and those that it is a share of.
type uses struct{ taken, sure, all map[string]int }

func newUses() *uses { return &uses{map[string]int{}, map[string]int{}, map[string]int{}} }

func (u *uses) take(rack string, sure bool) {
	u.taken[rack]++
	if sure {
		u.sure[rack]++
	}
}

// claim takes a place for a node that a rule claims, if the claim uses one.
func (u *uses) claim(n *node, r *rule, by *underRule) {
	if by.place(n) > 0 {
		u.take(n.rack(r), by.used && by.version == r.Metadata.Generation)
	}
}

func (u *uses) count(n *node) { u.counts(n.Metadata.Labels[rackLabel]) }

func (u *uses) counts(rack string) { u.all[rack]++ }

// rate: within no time of its length does a rule claim more nodes in service than a rate allows, or make its condition
// False on more. The record says when a claim was made.
func (m *Model) rate(r *rule, at time.Time, what string) {
	h := m.rules[r.Metadata.UID]
	if h.timesOf != r.Metadata.Generation {
		h.times, h.timesOf = map[string][]time.Time{}, r.Metadata.Generation
	}
	times := append(h.times[what], at)
	slices.SortFunc(times, time.Time.Compare)
	h.times[what] = times
	for _, l := range r.Spec.limits() {
		if l.WithinSeconds == 0 || m.wrong() {
			continue
		}
		for i := range times {
			if j := i + allowed(l.Max, 0); j < len(times) {
				m.check("rate", times[j].Sub(times[i]) >= time.Duration(l.WithinSeconds-1)*time.Second,
					"rule %s %s %d nodes in service from %s to %s", r.Metadata.Name, what, j-i+1, times[i].Format(time.TimeOnly),
					times[j].Format(time.TimeOnly))
			}
		}
	}
}

// full reports whether one of the limits leaves no room for a node.
func (r *rule) full(n *node, claimed, all int, in *uses, now time.Time) bool {
	return slices.ContainsFunc(r.Spec.limits(), func(l limit) bool { return l.full(n, r, claimed, all, in, now) })
}

// full reports whether a limit leaves no room for a node. A rate counts the times in the rule's status.
func (l *limit) full(n *node, r *rule, claimed, all int, in *uses, now time.Time) bool {
	rack := n.Metadata.Labels[rackLabel]
	switch {
	case l.WithinSeconds > 0:
		counted := 0
		for _, t := range r.Status.Rate.Claims {
			if t.Add(time.Duration(l.WithinSeconds) * time.Second).After(now.Add(-slack)) {
				counted++
			}
		}
		return counted >= allowed(l.Max, 0)
	case l.MaxDomains != nil:
		return in.sure[rack] == 0 && len(in.taken) >= *l.MaxDomains
	case l.Per != "":
		return in.taken[rack] >= allowed(l.Max, in.all[rack])
	}
	return claimed >= allowed(l.Max, all)
}

func allowed(limit json.RawMessage, of int) int {
	text := strings.Trim(string(limit), `"`)
	n := 0
	fmt.Sscan(strings.TrimSuffix(text, "%"), &n)
	if strings.HasSuffix(text, "%") {
		return (n*of + 99) / 100
	}
	return n
}
