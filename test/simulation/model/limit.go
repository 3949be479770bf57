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
// the claim used the limit: then it counts until it is released, even if the node is cordoned. A place that was granted
// before a write of the node failed stays granted, also if a write of a former leader has taken another one since.
//
//nolint:gocyclo // one condition for each exception of the documentation
func (m *Model) limit(shown *node, r *rule, v *View) bool {
	if !r.Spec.limited() || v.override(shown) == "Hold" || m.inService(shown, r) != yes ||
		shown.Spec.Unschedulable || v.edited(r, 0) || m.hasFull(r, v) {
		return false
	}
	claimed, all, in := 0, 0, newUses()
	failed := m.node(shown.Metadata.UID).under(r.Metadata.UID).failed
	for n := range v.nodes() {
		h := m.node(n.Metadata.UID)
		u := h.under(r.Metadata.UID)
		matches := r.Spec.NodeSelector.matches(n.Metadata.Labels)
		if !matches && (h.last == nil || !r.Spec.NodeSelector.matches(h.last.Metadata.Labels)) {
			continue
		}
		all++ // a node that has just been cordoned or relabelled may count still
		in.count(n)
		if h.last != nil && h.last.labelled() != n.labelled() {
			in.count(h.last)
		}
		if !matches || (n.Spec.Unschedulable || n.Metadata.DeletionTimestamp != nil) && !u.used || m.lapsed(h.last, r) {
			continue
		}
		now := h.last != nil && h.last.claim(r.Metadata.UID) != ""
		if now && m.inService(n, r) == yes && v.override(n) == "" && !u.forced &&
			(u.claimer == v.Process || n.claim(r.Metadata.UID) != "" && v.looked(n, r) && failed.Before(u.claimedAt) &&
				(!u.granted || n.record(r.Metadata.UID).Limited)) {
			claimed++
			if u.version == r.Metadata.Generation || u.at == n.domains(r) && u.at == h.last.domains(r) {
				in.take(u.at, true)
				in.counts(u.at)
			}
		}
	}
	m.first(shown, r, v)
	if v.share(r) {
		return true
	}
	kept := m.keptPlaces(r, v)
	for _, l := range r.Spec.limits() {
		switch d := shown.domains(r).of(l.Per); {
		case l.WithinSeconds > 0:
		case l.MaxDomains != nil:
			m.check("domains", in.open(l.Per) <= *l.MaxDomains, "rule %s claims nodes in service of %d domains of %s, by "+
				"node %s", r.Metadata.Name, in.open(l.Per), l.Per, shown.Metadata.Name)
		case l.Per != "":
			m.check("domains", in.taken[d] <= allowed(l.Max, in.all[d]),
				"rule %s claims %d nodes in service of %d of %s, by node %s", r.Metadata.Name, in.taken[d], in.all[d], d,
				shown.Metadata.Name)
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

// looked reports whether a replica has looked at a node since it has a claim that another one has made.
func (v *View) looked(n *node, r *rule) bool {
	last := read[node](v.Looked[n.Metadata.Name])
	return last != nil && (last.Metadata.UID != n.Metadata.UID || last.claim(r.Metadata.UID) != "")
}

// lapsed reports whether a rule claims a taint that someone removed before the rule was put in force again: the limit
// applies before it is added.
func (m *Model) lapsed(n *node, r *rule) bool {
	claim, h := n.claim(r.Metadata.UID), m.node(n.Metadata.UID)
	return claim != "" && !n.has(claim) &&
		h.under(r.Metadata.UID).claimedAt.Before(m.rules[r.Metadata.UID].inForce[r.Metadata.Generation])
}

// forced: when the override Hold has ended, a node in service is held only if it has a place under the limit.
func (m *Model) forced(r *rule, v *View) {
	if !r.Spec.limited() || !r.Spec.enforced() || r.Metadata.DeletionTimestamp != nil || v.frozen(r) != "" {
		return
	}
	for n := range v.nodes() {
		u := m.node(n.Metadata.UID).under(r.Metadata.UID)
		m.check("limit", !u.forced || n.claim(r.Metadata.UID) == "" || v.override(n) != "" || n.Spec.Unschedulable ||
			n.Metadata.DeletionTimestamp != nil || !r.Spec.NodeSelector.matches(n.Metadata.Labels) ||
			m.inService(n, r) != yes, "rule %s holds node %s, whose override has ended, without a place", r.Metadata.Name,
			n.Metadata.Name)
	}
}

// share reports whether a limit is a percentage of a number that may include nodes that are gone.
func (v *View) share(r *rule) bool {
	return v.Leaving && slices.ContainsFunc(r.Spec.limits(),
		func(l limit) bool { return strings.Contains(string(l.Max), "%") })
}

// limit is an entry of limits.
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

func (s *spec) byDomain() bool { return slices.ContainsFunc(domainKeys, s.per) }

// per reports whether a limit is by the domains of a label.
func (s *spec) per(key string) bool {
	return key != "" && slices.ContainsFunc(s.limits(), func(l limit) bool { return l.Per == key })
}

func (s *spec) byDomains() bool {
	return slices.ContainsFunc(s.limits(), func(l limit) bool { return l.MaxDomains != nil })
}

func (s *spec) rated() bool {
	return slices.ContainsFunc(s.limits(), func(l limit) bool { return l.WithinSeconds > 0 })
}

// rate: within no time of its length does a rule claim more nodes in service than a rate allows, or make its condition
// False on more, also if it was not in force for a while. at is when it did.
func (m *Model) rate(r *rule, at time.Time, what string) {
	h := m.rules[r.Metadata.UID]
	times := append(h.times[what], at)
	slices.SortFunc(times, time.Time.Compare)
	h.times[what] = times
	for _, l := range r.Spec.limits() {
		if l.WithinSeconds == 0 {
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
	switch d := n.labelled().of(l.Per); {
	case l.WithinSeconds > 0:
		counted := 0
		for _, t := range r.Status.Rate.ClaimTimes {
			if t.Add(time.Duration(l.WithinSeconds) * time.Second).After(now.Add(-slack)) {
				counted++
			}
		}
		return counted >= allowed(l.Max, 0)
	case l.MaxDomains != nil:
		return in.sure[d] == 0 && in.open(l.Per) >= *l.MaxDomains || in.open(l.Per) > *l.MaxDomains
	case l.Per != "":
		return in.taken[d] >= allowed(l.Max, in.all[d])
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

// room: where the limit leaves room, no node in service stays open on which the rule has not held for long.
func (m *Model) room(r *rule, v *View) {
	s := &r.Spec
	if !s.limited() || !s.enforced() || v.frozen(r) != "" || s.Timeout.Seconds > 0 ||
		s.ExistingNodes != "" || s.bootstrap() || s.Taint.Key == "" ||
		m.vacated(r, v) > 0 && slices.ContainsFunc(s.limits(), func(l limit) bool { return l.Per != "" }) {
		return
	}
	claimed, all, in, open := m.places(r, v)
	m.reached(r, open, claimed, all, in, v)
	unknown, most := m.unknownUses(r, open, in, v)
	for _, n := range open {
		full := r.full(n, claimed, all, in, m.now()) || r.full(n, claimed+unknown, all, most, m.now())
		m.check("room", full, "rule %s leaves node %s open, and claims %d of %d",
			r.Metadata.Name, n.Metadata.Name, claimed, all+claimed)
		u := m.node(n.Metadata.UID).under(r.Metadata.UID)
		u.waits, u.waited = v.Leader, latest(u.observed.from, u.observed.yes, u.observed.unsure)
		u.waitsIn = n.labelled()
		u.roomy = !slices.ContainsFunc(s.limits(), func(l limit) bool {
			return l.Per != "" && l.full(n, r, claimed, all, in, m.now())
		})
	}
}

// places counts the claims of a rule, and the other nodes in service, of which those are open on which the rule has not
// held for long.
func (m *Model) places(r *rule, v *View) (claimed, all int, in *uses, open []*node) {
	s := &r.Spec
	in = newUses()
	for n := range v.nodes() {
		u := m.node(n.Metadata.UID).under(r.Metadata.UID)
		counts := s.NodeSelector.matches(n.Metadata.Labels) && v.override(n) == "" && m.rebooted(n, r) != yes
		switch {
		case n.claim(r.Metadata.UID) != "":
			claimed += u.place(n)
			in.claim(n, r, u)
		case !counts || n.Spec.Unschedulable || n.Metadata.DeletionTimestamp != nil:
		case m.inService(n, r) != yes:
		case m.holds(n, r, v, true) == no && m.steady(n, r, no, s.Stabilization.UnreadySeconds, v) &&
			!v.Refused[n.Metadata.Name] && !n.letsPass(r):
			open = append(open, n)
			all++
			in.count(n)
		default:
			all++
			in.count(n)
		}
	}
	return claimed, all, in, open
}

// place returns how many places a claim uses.
func (u *underRule) place(n *node) int {
	if u.forced || n.Spec.Unschedulable && u.free {
		return 0
	}
	return 1
}
