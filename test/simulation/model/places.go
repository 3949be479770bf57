// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// place is the place of a node that was deleted while it used the limit of a rule.
type place struct {
	uid   string
	at    time.Time
	ready map[string]bool // nodes that had been ready under the rule before: they free no place
	left  int             // how often a node has left the rule since: each may free one more
}

// rereads is how late the operator may read the rules again when our CRD is served again: until then, no limit applies.
const rereads = 10 * time.Second

// settled notes, at a quiet moment, which nodes use a limit: the status of the rule says so, too.
func (m *Model) settled(v *View) {
	for r := range v.rules() {
		for n := range v.nodes() {
			u := m.node(n.Metadata.UID).under(r.Metadata.UID)
			if u.settled = 0; u.used && r.Spec.limited() && n.claim(r.Metadata.UID) != "" && v.override(n) == "" &&
				r.Spec.NodeSelector.matches(n.Metadata.Labels) {
				u.settled = r.Metadata.Generation
			}
		}
	}
}

// restPlaces: the status counts the places of deleted nodes.
func (m *Model) restPlaces(r *rule, v *View) {
	if kept := m.keptPlaces(r, v); kept > 0 && r.Spec.enforced() && v.frozen(r) == "" && !v.thawed(r.Metadata.UID) {
		m.check("places", r.Status.Limit.Deleted >= kept,
			"rule %s counts %d deleted nodes that use its limit, and there are %d",
			r.Metadata.Name, r.Status.Limit.Deleted, kept)
	}
}

// vacates notes the places of nodes that are gone.
func (m *Model) vacates(v *View) {
	there := map[string]bool{}
	for n := range v.nodes() {
		there[n.Metadata.UID] = true
	}
	for uid, h := range m.nodes {
		if there[uid] || h.gone {
			continue
		}
		h.gone = true
		for id, u := range h.rules {
			rh, used := m.rules[id], u.used
			u.used = used || m.now().Sub(u.failed) < time.Minute // counts as held, perhaps
			if rh == nil || u.settled != rh.last.Metadata.Generation || !used || m.now().Sub(m.replaced) < rereads ||
				h.full && h.last.claim(id) == "" { // released while its annotations had little room
				continue
			}
			if n := len(rh.places); n > 0 && m.now().Sub(rh.places[n-1].at) > time.Hour-slack {
				rh.places = nil // they may be free by now
			}
			p := place{uid: uid, at: v.Now, ready: map[string]bool{}}
			for other, h := range m.nodes {
				p.ready[other] = h.under(id).opened || h.under(id).reborn
			}
			rh.places = append(rh.places, p)
		}
	}
}

// leaves notes that a rule has dropped the release of a node. If the node comes back, it counts as another new node.
func (m *Model) leaves(was, is *node, id string) {
	if rh := m.rules[id]; rh != nil && !was.record(id).Released.IsZero() && is.record(id).Released.IsZero() {
		for i := range rh.places {
			rh.places[i].left++
		}
	}
}

// Served notes that another CRD is served: under a foreign one, rules have no limit, and deleted nodes keep no place.
func (m *Model) Served() {
	m.replaced = m.now()
	for _, rh := range m.rules {
		rh.places, rh.times = nil, map[string][]time.Time{}
	}
}

// keptPlaces is how many places of deleted nodes are surely in use still, by what a replica was shown. A node that
// becomes ready for the first time frees one, and all are free an hour after the last deletion.
func (m *Model) keptPlaces(r *rule, v *View) int {
	rh := m.rules[r.Metadata.UID]
	if rh.last.Metadata.Generation != r.Metadata.Generation || v.Leaving || len(rh.places) == 0 {
		return 0
	}
	if last := rh.places[len(rh.places)-1]; m.now().Sub(last.at) > time.Hour-slack {
		return 0
	}
	kept := 0
	for _, p := range rh.places {
		shown := m.node(p.uid).last
		if shown == nil || v.Nodes[shown.Metadata.Name] == nil {
			kept++
			continue
		}
		// For a process that has started since, a node that came back within the second may be the same one.
		now := read[node](v.Nodes[shown.Metadata.Name])
		if now.Metadata.UID != p.uid && (v.Started.Before(p.at) || now.Metadata.CreationTimestamp.After(p.at)) {
			kept++
		}
	}
	first := rh.places[0]
	kept -= first.left
	for uid, h := range m.nodes {
		u := h.under(r.Metadata.UID)
		switch {
		case first.ready[uid] || h.last != nil && m.existing(h.last, r) == yes:
		case !u.opened && !u.perhaps && u.observed.last != 0 && u.observed.yes.Before(first.at): // its start has not ended
		default:
			kept--
		}
	}
	return max(0, kept)
}

// vacated is how many nodes are gone that used the limit of a rule: their places may be taken still.
func (m *Model) vacated(r *rule, v *View) (n int) {
	there := map[string]bool{}
	for n := range v.nodes() {
		there[n.Metadata.UID] = true
	}
	for uid, h := range m.nodes {
		if !there[uid] && (h.under(r.Metadata.UID).used || h.marker[r.Spec.Publish.ConditionType] != 0 ||
			h.last != nil && h.last.claim(r.Metadata.UID) != "") {
			n++
		}
	}
	return n
}
