// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"time"
)

// Others is what a process has read of another controller's rules. A process without one has none to read.
type Others struct {
	// Rules are the rules that count, by name: if they cannot be read, those that were read last.
	Rules map[string]Document
	// Unread is whether the process has not read them yet. Gone is whether their CRD has been missing for so long that
	// the rules may count no more.
	Unread, Gone bool
	// Ended are the taints that no rule manages any more, by key and effect.
	Ended map[string]Ended
}

// Ended is when a process learned that no rule of another controller manages a taint any more, which nodes did not have
// a taint of any rule then, by UID, and which rules of Nodegate there were.
type Ended struct {
	At    time.Time
	Lacks map[string]bool
	Rules map[string]Document
}

// Managed are the taints that rules of another controller manage: those in dry-run manage none.
func Managed(rules map[string]Document) map[string]bool {
	out := map[string]bool{}
	for r := range each[rule](rules) {
		if r.Spec.Taint.Key != "" && !r.Spec.DryRun {
			out[r.Spec.Taint.id()] = true
		}
	}
	return out
}

// beside is what a story has had of another controller.
type beside struct {
	// taints are those that its rules have ever managed.
	taints map[string]bool
	// frozen are the rules that had such a taint, by UID: they may have been frozen, and put in force again.
	frozen map[string]bool
	// assumed is whether a process has acted that could not read the rules: then any rule may have been frozen.
	assumed bool
	// put is when another client than the operator put a taint on a node last, by the node's UID and the taint.
	put map[string]time.Time
}

// besides notes which taints another controller manages, and which rules they freeze.
func (m *Model) besides(v *View) {
	if v.Others == nil {
		return
	}
	maps.Copy(m.beside.taints, Managed(v.Others.Rules))
	for uid, h := range m.rules {
		for id := range h.taints {
			if m.beside.taints[id] {
				m.beside.frozen[uid] = true
			}
		}
	}
}

// puts notes the taints that another client than the operator has put on a node.
func (m *Model) puts(was, is *node) {
	for _, t := range is.Spec.Taints {
		if was == nil || !was.has(t.id()) {
			m.beside.put[is.Metadata.UID+t.id()] = m.now()
		}
	}
}

// Assumed notes that a process acts that could not read another controller's rules.
func (m *Model) Assumed() { m.beside.assumed = true }

// theirs says whether another controller manages a taint, as far as the replica could know.
func (v *View) theirs(id string) answer {
	switch {
	case v.Others == nil:
		return no
	case v.Others.Unread, v.Others.Gone && Managed(v.Others.Rules)[id]:
		return unknown
	case Managed(v.Others.Rules)[id]:
		return yes
	}
	return no
}

// frozenByOthers says why a rule cannot be judged because of another controller's rules; empty if it can be.
func (v *View) frozenByOthers(r *rule) string {
	if r.Spec.Taint.Key == "" || r.Spec.DryRun && !r.invalid() {
		return ""
	}
	is := v.theirs(r.Spec.Taint.id())
	return map[answer]string{yes: "another controller manages its taint", unknown: perhapsTheirs}[is]
}

// perhapsTheirs is why a rule cannot be judged that may be frozen, or not.
const perhapsTheirs = "another controller may manage its taint"

// thawed reports whether a rule may have been frozen because of another controller, and put in force again: nodes
// without its taint are in service then, and it may have missed what happened.
func (v *View) thawed(uid string) bool {
	return v.beside != nil && (v.beside.assumed || v.beside.frozen[uid])
}

// theirs: no write changes a taint that a rule of another controller manages.
func (m *Model) theirs(was, is *node, v *View) {
	if v.Others == nil {
		return
	}
	for _, id := range difference(was.Spec.Taints, is.Spec.Taints) {
		m.check("theirs", v.theirs(id) != yes, "taint %s of node %s is changed, which another controller manages", id,
			is.Metadata.Name)
	}
}

// returned: after another controller's rule has ended, a limited rule claims no more of the nodes that lack its taint
// than its limit allows: they are in service.
func (m *Model) returned(was, is *node, v *View) {
	for r := range v.rules() {
		id := r.Spec.Taint.id()
		if v.Others == nil || was.has(id) || !is.has(id) || !m.returns(is, r, v) || v.Leaving {
			continue
		}
		returned, all := 0, 0
		for n := range v.nodes() {
			if r.Spec.NodeSelector.matches(n.Metadata.Labels) {
				all++
			}
			if now := m.node(n.Metadata.UID).last; now != nil && m.returns(now, r, v) {
				returned++
			}
		}
		for _, l := range r.Spec.limits() {
			if l.Per == "" && l.MaxDomains == nil && l.WithinSeconds == 0 {
				m.check("returned", returned <= allowed(l.Max, all), "rule %s claims %d nodes that lacked its taint when another "+
					"controller's rule ended", r.Metadata.Name, returned)
			}
		}
	}
}

// returns reports whether a rule claims a node, and may do so only within its limit, since the node lacked the taint
// when a rule of another controller ended.
func (m *Model) returns(n *node, r *rule, v *View) bool {
	id, h := r.Spec.Taint.id(), m.node(n.Metadata.UID)
	ended := v.Others.Ended[id]
	frozen := read[rule](ended.Rules[r.Metadata.Name])
	return frozen != nil && frozen.Metadata.UID == r.Metadata.UID && frozen.Metadata.Generation == r.Metadata.Generation &&
		ended.Lacks[n.Metadata.UID] && n.has(id) && n.claim(r.Metadata.UID) == id && r.Spec.limited() &&
		v.theirs(id) == no && h.boot.IsZero() && !h.full && !h.tampered && !n.Spec.Unschedulable && v.override(n) == "" &&
		!h.under(r.Metadata.UID).forced && !m.beside.put[n.Metadata.UID+id].After(ended.At) &&
		n.Metadata.CreationTimestamp.Add(slack).Before(ended.At)
}
