// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"
	"time"
)

// Filled notes that the annotations of a node have had little room: its records may be short, or missing.
func (m *Model) Filled(d Document) {
	if n := read[node](d); n != nil {
		m.node(n.Metadata.UID).full, m.node(n.Metadata.UID).filled = true, true
	}
}

// Tampered notes that an administrator has tried to change what the operator keeps on a node. Records cannot be changed
// where the record guard is installed. What the node is under the rules is open from then on.
func (m *Model) Tampered(before, after Document, key string, unguarded bool) {
	was, is, key := read[node](before), read[node](after), firstKey(key)
	if is == nil || was.Metadata.Annotations[key] == is.Metadata.Annotations[key] {
		return
	}
	h := m.node(is.Metadata.UID)
	for _, u := range h.rules {
		u.opened, u.served, u.reborn, u.perhaps = false, false, false, true
	}
	switch {
	case strings.HasPrefix(key, replaced):
		if h.marks == nil {
			h.marks = map[string]bool{}
		}
		h.marks[key] = is.Metadata.Annotations[key] != ""
	case strings.HasPrefix(key, recordPrefix):
		h.full, h.tampered = true, true
		m.check("overruled", unguarded, "the record %s of node %s is changed by an administrator", key, is.Metadata.Name)
	}
}

// Forged notes that a node has registered with records. Where a policy protects them, only a claim stays, as admission
// makes it.
func (m *Model) Forged(d Document, brought map[string]string, unguarded bool) {
	n := read[node](d)
	if unguarded {
		h := m.node(n.Metadata.UID)
		h.full, h.tampered = true, true
		return
	}
	for key := range sorted(brought) {
		m.check("overruled", n.record(First(strings.TrimPrefix(key, recordPrefix))).Released.IsZero(),
			"the record %s that node %s brought says that it was released", key, n.Metadata.Name)
	}
}

// Upgraded notes that another version of the operator has written the records of a node. Without domains in them, the
// limits count the node in those of its labels.
func (m *Model) Upgraded(d Document) {
	n := read[node](d)
	if n == nil {
		return
	}
	for uid, u := range m.node(n.Metadata.UID).rules {
		if rh := m.rules[uid]; rh != nil && u.at != n.domains(rh.last) {
			u.at, u.version = n.domains(rh.last), 0
		}
	}
}

// countable: without room for a record, no rule with a limit adds its taint to a node in service: nothing would count
// the node.
func (m *Model) countable(was, is, shown *node, v *View) {
	if h := m.node(is.Metadata.UID); shown == nil || !h.filled || h.tampered || v.override(shown) == "Hold" {
		return
	}
	open, by := map[string]bool{}, map[string]string{}
	for r := range v.rules() {
		id := r.Spec.Taint.id()
		if !r.Spec.NodeSelector.matches(shown.Metadata.Labels) || was.has(id) || shown.has(id) || !is.has(id) {
			continue
		}
		by[id] = r.Metadata.Name
		open[id] = open[id] || !r.Spec.limited() || r.Spec.rearms() || m.inService(shown, r) != yes ||
			is.claim(r.Metadata.UID) == id || v.frozen(r) != ""
	}
	for id := range sorted(by) {
		m.check("limit", open[id], "rule %s adds taint %s to node %s in service, which has no room for its record", by[id],
			id, is.Metadata.Name)
	}
}

// hasFull reports whether a rule selects, or has selected, a node whose annotations have had little room: what it
// counts goes by records.
func (m *Model) hasFull(r *rule, v *View) bool {
	h := m.rules[r.Metadata.UID]
	for n := range v.nodes() {
		h.full = h.full || m.node(n.Metadata.UID).full && r.Spec.NodeSelector.matches(n.Metadata.Labels)
	}
	return h.full
}

// restFull: without complete records, taints are still added and removed.
func (m *Model) restFull(n *node, v *View) {
	for id := range sorted(m.taintsOf(n, v)) {
		wanted, open := false, m.node(n.Metadata.UID).foreign[id]
		for r := range v.rules() {
			if r.Spec.Taint.id() != id || !r.Spec.NodeSelector.matches(n.Metadata.Labels) {
				open = open || n.claim(r.Metadata.UID) == id
				continue
			}
			switch holds := m.holds(n, r, v, true); {
			case v.override(n) != "" || !m.plain(n, r, v) || holds == unknown || v.frozen(r) != "":
				open = true
			case holds == no && r.Spec.Timeout.Seconds > 0: // it has ended
			case holds == no && m.steady(n, r, no, 0, v):
				wanted = true
			case !m.steady(n, r, yes, r.Spec.Stabilization.ReadySeconds, v):
				open = true
			}
		}
		if wanted || !open {
			m.check("roomless", n.has(id) == wanted,
				"taint %s on node %s, whose records are not complete: %v, and a rule wants it: %v", id, n.Metadata.Name,
				n.has(id), wanted)
		}
	}
}

// plain reports whether only its evidence, or an override, decides whether a rule holds a node.
func (m *Model) plain(n *node, r *rule, v *View) bool {
	s, h := &r.Spec, m.node(n.Metadata.UID)
	if s.Timeout.Seconds > 600 || // it may not have ended when everything is at rest
		s.Timeout.Seconds > 0 && (v.Process != 0 || s.Timeout.Action != "Release" || !h.tampered || h.filled) {
		return false
	}
	return s.enforced() && r.Metadata.DeletionTimestamp == nil && !s.bootstrap() && !s.limited() &&
		(s.ExistingNodes == "" || s.ExistingNodes == "All") && !s.rearms() &&
		s.Stabilization.UnreadySeconds == 0 && n.Metadata.DeletionTimestamp == nil &&
		(len(m.rules[r.Metadata.UID].inForce) == 1 || s.Timeout.Seconds > 0) &&
		m.now().Sub(n.Metadata.CreationTimestamp) > time.Second
}

// AsksAgain reports whether the operator may write for ever. Without room for a record, nothing keeps that a node has
// used a turn of a rate, unless the rule has put a taint on it: every five minutes, the node uses another one.
func (m *Model) AsksAgain(v *View) bool {
	for r := range v.rules() {
		if r.Spec.rated() && m.hasFull(r, v) {
			return true
		}
	}
	return false
}
