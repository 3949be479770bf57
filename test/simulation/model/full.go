// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// Filled notes that the annotations of a node have had little room: its records may be short, or missing.
func (m *Model) Filled(d Document) {
	if n := read[node](d); n != nil {
		m.node(n.Metadata.UID).full = true
	}
}

// hasFull reports whether a rule selects, or has selected, a node whose annotations have had little room: what it
// counts goes by records.
func (m *Model) hasFull(r *rule, v *View) bool {
	h := m.rules[r.Metadata.UID]
	for n := range each[node](v.Nodes) {
		h.full = h.full || m.node(n.Metadata.UID).full && r.Spec.NodeSelector.matches(n.Metadata.Labels)
	}
	return h.full
}

// restFull: without room for records, taints are still added and removed.
func (m *Model) restFull(n *node, v *View) {
	for id := range sorted(m.taintsOf(n, v)) {
		wanted, open := false, m.node(n.Metadata.UID).foreign[id]
		for r := range each[rule](v.Rules) {
			if r.Spec.Taint.id() != id || !r.Spec.NodeSelector.matches(n.Metadata.Labels) {
				open = open || n.claim(r.Metadata.UID) == id
				continue
			}
			switch holds := m.holds(n, r, v, true); {
			case !m.plain(n, r, v) || holds == unknown || v.frozen(r) != "":
				open = true
			case holds == no && m.steady(n, r, no, 0, v):
				wanted = true
			case !m.steady(n, r, yes, r.Spec.Stabilization.ReadySeconds, v):
				open = true
			}
		}
		if wanted || !open {
			m.check("roomless", n.has(id) == wanted,
				"taint %s on node %s, whose annotations are full: %v, and a rule wants it: %v", id, n.Metadata.Name,
				n.has(id), wanted)
		}
	}
}

// plain reports whether only its evidence decides whether a rule holds a node.
func (m *Model) plain(n *node, r *rule, v *View) bool {
	s := &r.Spec
	return s.enforced() && r.Metadata.DeletionTimestamp == nil && !s.bootstrap() && !s.limited() &&
		(s.ExistingNodes == "" || s.ExistingNodes == "All") && s.Timeout.Seconds == 0 && !s.rearms() &&
		s.Stabilization.UnreadySeconds == 0 && v.override(n) == "" && n.Metadata.DeletionTimestamp == nil &&
		len(m.rules[r.Metadata.UID].inForce) == 1 && m.now().Sub(n.Metadata.CreationTimestamp) > time.Second
}
