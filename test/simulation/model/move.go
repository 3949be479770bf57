// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Move judges one write of a replica.
func (m *Model) Move(kind string, before, after Document, v *View) {
	switch kind {
	case "keptendpoints":
		m.kept.written = m.now()
		m.prolongs(before, after)
	case "pods":
		m.evicted(before, after, v)
	case "nodeclaims":
		m.takes(before, after, v)
	}
	if kind == "nodereadinessrules" && after == nil {
		m.rules[read[rule](before).Metadata.UID].removed = m.now().Truncate(time.Second)
	}
	if v != nil {
		v.beside = &m.beside
	}
	if before == nil || after == nil {
		return
	}
	if kind == "nodereadinessrules" {
		m.intends(read[rule](before), read[rule](after), v)
	}
	if kind != "nodes" {
		return
	}
	was, is := read[node](before), read[node](after)
	shown := read[node](v.Nodes[was.Metadata.Name])
	h := m.node(was.Metadata.UID)
	m.theirs(was, is, v)
	h.occupied = h.occupied || v.busy(is)
	m.ours(was, is, shown, v)
	m.announces(was, is, shown, v)
	m.publishes(was, is, v)
	m.marksReplaced(was, is, v)
	m.swept(was, is, v)
	m.keeps(was, is)
	m.countable(was, is, shown, v)
	for r := range v.rules() {
		m.moves(was, is, r)
		m.frozen(was, is, r, v)
		if !h.full { // its records may not change
			m.stands(was, is, r, v)
		}
		if m.rules[r.Metadata.UID] != nil && shown != nil && !h.full {
			m.publishesLate(was, is, shown, r)
			m.moveUnder(was, is, shown, r, v)
		}
	}
	if was.evicts() {
		h.evicts = m.now()
	}
	h.last = is
	m.returned(was, is, v)
}

// released notes that a node has become ready. A node in service has a release in its record when it is first held:
// that is none.
func (m *Model) released(was, is *node, uid string) {
	at, before := is.record(uid).Released, was.record(uid).Released
	if is.claim(uid) != "" || at.IsZero() || at.Equal(before) {
		return
	}
	if before.IsZero() {
		m.rules[uid].ready = m.now()
	}
}

// publishesLate: no rule begins to publish on a node that is being deleted.
func (m *Model) publishesLate(was, is, shown *node, r *rule) {
	published := is.record(r.Metadata.UID).Published
	if shown.Metadata.DeletionTimestamp != nil && published != "" {
		m.check("published", published == was.record(r.Metadata.UID).Published,
			"rule %s begins to publish on node %s, which is being deleted", r.Metadata.Name, is.Metadata.Name)
	}
}

// moveUnder judges one write of a node by one rule.
func (m *Model) moveUnder(was, is, shown *node, r *rule, v *View) { //nolint:gocyclo // one predicate after the other
	uid, h := r.Metadata.UID, m.node(is.Metadata.UID)
	u := h.under(uid)
	had, has := was.claim(uid), is.claim(uid)
	m.boots(was, is, shown, r, v)
	switch {
	case had == "" && has != "":
		m.closed(shown, r, v)
		u.observed.knower = 0 // the process saw another verdict, perhaps of stale evidence that was fresh again
		u.claimer, u.granted = v.Process, false
		u.counted(shown, r)
		u.forced = (v.override(shown) == "Hold" || shown.Spec.Unschedulable) && r.Spec.limited() &&
			m.inService(shown, r) != no
		u.claimed = v.Now.Truncate(time.Second)
		u.claimedAt, u.passed = m.now().Truncate(time.Second), time.Time{}
		u.free, u.before = shown.Spec.Unschedulable, !r.Spec.limited()
		u.perhaps = u.perhaps || v.Blind && was.Metadata.Annotations[r.key()] == ""
		if m.inService(shown, r) == yes && u.opened && v.override(shown) == "" && !shown.has(has) {
			m.window(was, shown, r, v, r.Spec.Stabilization.UnreadySeconds, yes)
			m.rereads(shown, r, v)
		}
		h.last = is
		if !was.has(has) || v.claimedByAnother(shown, uid, has) { // else it is adopted
			m.booting(shown, r, v)
			m.spared(shown, r, v)
			u.served = u.served || m.arrived(shown, r, v)
			if u.used = m.limit(shown, r, v); u.used {
				m.rate(r, is.record(uid).Since, "claims")
			}
		} else {
			u.adopted = true
		}
	case had != "" && has == "":
		m.opened(was, is, shown, r, v)
	case has != "" && !u.forced && m.lapsed(was, r) && is.has(has):
		u.claimer, u.claimedAt, h.last = v.Process, m.now().Truncate(time.Second), is
		u.counted(shown, r)
		u.used = m.limit(shown, r, v)
	case u.before && has != "" && r.Spec.limited() && !v.waits(shown) && !is.record(uid).Limited:
		u.forced = m.inService(shown, r) != no
	case u.forced && has != "" && is.record(uid).Limited:
		u.claimer, u.forced, u.granted = v.Process, false, true
		u.counted(shown, r)
		u.used = m.limit(shown, r, v)
	case has == "" && was.Metadata.Annotations[r.key()] == "" && is.Metadata.Annotations[r.key()] != "" &&
		r.Spec.ExistingNodes == "Idle" && m.holds(shown, r, v, true) == no:
		u.busy = v.busy(shown)
	}
	if has == "" {
		u.used, u.settled = false, 0
	}
	u.forced = u.forced && r.Spec.limited()
	if !was.marked(r) && is.marked(r) {
		m.completes(was, is, shown, r, v)
	}
	m.released(was, is, uid)
	if was.Metadata.Annotations[r.key()] != "" && is.Metadata.Annotations[r.key()] == "" {
		u.records++
	}
	m.guards(was, is, shown, r, v)
	if is.record(uid).BootID == "" {
		u.seen = false // a rule that begins to match the node again does not know when it booted
	}
	if !r.Spec.NodeSelector.matches(shown.Metadata.Labels) && is.record(uid).Released.IsZero() {
		// Whether a node that comes back is in service is open.
		u.opened, u.served, u.reborn, u.busy = false, false, false, false
		m.leaves(was, is, uid)
	}
	if has == "" && (had != "" || was.Metadata.Annotations[r.key()] != is.Metadata.Annotations[r.key()]) ||
		!was.marked(r) && is.marked(r) {
		let := r.Spec.bootstrap() && is.record(uid).Passed // by a timeout: the start has not ended
		if r.Spec.NodeSelector.matches(shown.Metadata.Labels) && v.override(shown) == "" && !let {
			holds := m.holds(shown, r, v, true)
			w := &r.Spec.Stabilization
			surely := w.ReadySeconds+w.MinHoldSeconds == 0 || !is.record(uid).Released.IsZero() || is.marked(r)
			u.opened, u.perhaps = u.opened || holds == yes && surely, u.perhaps || holds == unknown || holds == yes && !surely
		}
	}
}

// guards notes that the guard of a rule begins or ends on a node.
func (m *Model) guards(was, is, shown *node, r *rule, v *View) {
	uid, h := r.Metadata.UID, m.node(is.Metadata.UID)
	switch guards := !is.record(uid).GuardedSince.IsZero(); {
	case guards:
		if h.guarded = true; was.record(uid).GuardedSince.IsZero() {
			h.guardedAt = m.now()
		}
	case !was.record(uid).GuardedSince.IsZero() && m.holds(shown, r, v, false) != no:
		h.guarded = false // the node has recovered: its pods stay
	}
}

// swept notes that the record of a rule that is gone is removed: nothing is evicted for it.
func (m *Model) swept(was, is *node, v *View) {
	for key := range was.Metadata.Annotations {
		uid, ok := strings.CutPrefix(key, recordPrefix)
		if ok && is.Metadata.Annotations[key] == "" && !v.knows(uid) {
			m.node(is.Metadata.UID).guarded = false
			if claim := was.claim(uid); m.Unguarded && was.has(claim) && !m.asks(claim, v) {
				m.check("left", is.has(claim), "node %s loses taint %s, and only a record that nothing protects says that it is "+
					"of a rule", is.Metadata.Name, claim)
			}
		}
	}
}

// asks reports whether a rule asks for a taint.
func (m *Model) asks(id string, v *View) bool {
	for r := range v.rules() {
		if h := m.rules[r.Metadata.UID]; h != nil && h.taints[id] {
			return true
		}
	}
	return false
}

// keeps: the completion marker of a deleted rule stays for ten minutes, unless a rule of its name takes it over.
func (m *Model) keeps(was, is *node) {
	for key, value := range was.Metadata.Annotations {
		uid, ok := strings.CutPrefix(key, markerPrefix)
		h := m.rules[uid]
		if !ok || h == nil || h.last.Metadata.DeletionTimestamp == nil || was.record(uid).BootID != is.record(uid).BootID {
			continue
		}
		_, stays := is.Metadata.Annotations[key]
		inherited := slices.Contains(slices.Collect(maps.Values(is.Metadata.Annotations)), value)
		deleted := *h.last.Metadata.DeletionTimestamp
		m.check("keeps", stays || inherited || m.now().Sub(deleted) >= 10*time.Minute,
			"node %s loses annotation %s of a deleted rule", is.Metadata.Name, key)
	}
}

func (v *View) knows(uid string) bool {
	for r := range v.rules() {
		if r.Metadata.UID == uid {
			return true
		}
	}
	return false
}

// ours: a write changes taints of rules, records, markers and completion annotations, on the node that was read.
func (m *Model) ours(was, is, shown *node, v *View) {
	m.check("ours", shown != nil && shown.Metadata.UID == is.Metadata.UID, "node %s is another one than was read",
		is.Metadata.Name)
	asked := map[string]bool{}
	for _, h := range m.rules {
		for id := range h.taints {
			asked[id] = true
		}
	}
	for _, id := range difference(was.Spec.Taints, is.Spec.Taints) {
		forged := m.node(is.Metadata.UID).tampered && was.claims()[id]
		m.check("ours", asked[id] || forged, "taint %s of node %s is of no rule", id, is.Metadata.Name)
	}
	for key := range sorted(union(was.Metadata.Annotations, is.Metadata.Annotations)) {
		if key == override && was.Metadata.Annotations[key] != is.Metadata.Annotations[key] {
			m.check("lapsed", v.lapsed(was) && is.Metadata.Annotations[key] == "",
				"the override %q of node %s is removed, and has not ended", was.Metadata.Annotations[key], is.Metadata.Name)
		} else if was.Metadata.Annotations[key] != is.Metadata.Annotations[key] {
			m.check("ours", strings.HasPrefix(key, recordPrefix) || strings.HasPrefix(key, markerPrefix) ||
				strings.HasPrefix(key, replaced) || key == "example.com/completed",
				"annotation %s of node %s is changed", key, is.Metadata.Name)
			marks := m.node(is.Metadata.UID).marks
			m.check("replaces", !marks[key] || is.Metadata.Annotations[key] != "",
				"annotation %s of node %s is removed, which someone else has set", key, is.Metadata.Name)
			delete(marks, key)
		}
	}
	bare := func(n *node) node {
		other := *n
		other.Spec.Taints, other.Metadata.Annotations, other.Status.Conditions = nil, nil, nil
		other.records, other.labels, other.keys = nil, "", nil
		return other
	}
	m.check("ours", reflect.DeepEqual(bare(was), bare(is)),
		"more than taints, annotations and conditions of node %s is changed", is.Metadata.Name)
}

// difference are the taints that only one of two lists has, or that they have with another value.
func difference(a, b []taint) []string {
	var out []string
	for _, t := range a {
		if !slices.Contains(b, t) {
			out = append(out, t.id())
		}
	}
	for _, t := range b {
		if !slices.Contains(a, t) {
			out = append(out, t.id())
		}
	}
	return out
}

// sorted ranges over a map in the order of its keys.
func sorted[V any](of map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			if !yield(key, of[key]) {
				return
			}
		}
	}
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}
