// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// frozen: nothing of a rule differs that cannot be judged, unless a person asks for it: by Release, or by dry-run. That
// does not help while another controller manages its taint; a claim ends if that controller has removed the taint.
func (m *Model) frozen(was, is *node, r *rule, v *View) {
	why := v.frozen(r)
	asked := v.override(was) == "Release" || r.Spec.DryRun
	if why == "" || asked && v.frozenByOthers(r) == "" || strings.HasSuffix(why, perhapsTheirs) ||
		strings.HasSuffix(why, deadlock) ||
		v.frozenByOthers(r) != "" && was.lacks(r) && is.claim(r.Metadata.UID) == "" {
		return
	}
	m.check("frozen", was.Metadata.Annotations[r.key()] == is.Metadata.Annotations[r.key()] &&
		(was.marked(r) == is.marked(r) || !was.marked(r) && inherits(was, is, r)),
		"the record of rule %s on node %s is changed although %s", r.Metadata.Name, is.Metadata.Name, why)
}

// lacks reports whether the node does not have the taint that a rule claims.
func (n *node) lacks(r *rule) bool {
	claim := n.claim(r.Metadata.UID)
	return claim != "" && !n.has(claim)
}

// inherits reports whether a rule takes over the marker of a deleted rule of its name.
func inherits(was, is *node, r *rule) bool {
	for key := range was.Metadata.Annotations {
		if _, stays := is.Metadata.Annotations[key]; !stays && was.markedAs(key, r) {
			return true
		}
	}
	return false
}

// markedAs reports whether an annotation of a node is the marker of a rule of this name.
func (n *node) markedAs(key string, r *rule) bool {
	return strings.HasPrefix(key, markerPrefix) &&
		n.Metadata.Annotations[key] == fmt.Sprintf(`{"rule-name":%q}`, r.Metadata.Name)
}

// inheritable reports whether a rule has completed a node, or may take over the marker of a deleted rule of its name.
func (n *node) inheritable(r *rule) bool {
	for key := range n.Metadata.Annotations {
		if n.markedAs(key, r) {
			return true
		}
	}
	return n.marked(r)
}

// stands: what a record claims is on the node after a write that is about taints.
func (m *Model) stands(was, is *node, r *rule, v *View) {
	claim := is.claim(r.Metadata.UID)
	if v.edited(r, 0) || !plans(was, is) { // it may be frozen
		return
	}
	if claim == "" || !r.Spec.enforced() || r.Metadata.DeletionTimestamp != nil || v.frozen(r) != "" {
		return
	}
	m.check("stands", is.has(claim), "rule %s claims %s on node %s, which does not have it", r.Metadata.Name, claim,
		is.Metadata.Name)
}

// plans reports whether a write is about taints, records or markers: not only about a condition, and no hand-over,
// which writes the record of its rule, too.
func plans(was, is *node) bool {
	changed := false
	for key := range union(was.Metadata.Annotations, is.Metadata.Annotations) {
		if was.Metadata.Annotations[key] == is.Metadata.Annotations[key] {
			continue
		}
		if !strings.HasPrefix(key, replaced) {
			changed = true
		} else if was.Metadata.Annotations[key] == "" {
			return false
		}
	}
	return changed || !slices.Equal(was.Spec.Taints, is.Spec.Taints)
}

// closed: a new claim has a cause in what the replica was shown.
func (m *Model) closed(shown *node, r *rule, v *View) {
	h := m.node(shown.Metadata.UID)
	name := shown.Metadata.Name
	m.check("closed", r.Metadata.DeletionTimestamp == nil && r.Spec.enforced(),
		"rule %s, which is not enforced, claims node %s", r.Metadata.Name, name)
	if v.edited(r, 0) {
		m.closedByEdit(shown, r, v)
		return
	}
	m.check("closed", r.Spec.NodeSelector.matches(shown.Metadata.Labels),
		"rule %s does not select node %s, and claims it", r.Metadata.Name, name)
	if v.override(shown) == "Hold" {
		return
	}
	if r.Spec.rearms() && !h.boot.IsZero() && !h.under(r.Metadata.UID).opened {
		m.unlisted(shown, r, v)
		return
	}
	m.check("closed", v.override(shown) != "Release", "rule %s claims node %s in spite of the override",
		r.Metadata.Name, name)
	if r.holdsYoung(shown, v.Now) {
		return
	}
	if r.Spec.Stabilization.ReadySeconds == 0 || m.inService(shown, r) == yes && !shown.has(r.Spec.Taint.id()) {
		m.check("closed", m.holds(shown, r, v, false) != yes, "rule %s holds on node %s, and claims it", r.Metadata.Name,
			name)
	}
}

// closedByEdit: a rule that was edited does not claim a node in service on which each of its versions holds that can be
// in force, no matter which of them the operator has read evidence for.
func (m *Model) closedByEdit(shown *node, r *rule, v *View) {
	u, uid := m.node(shown.Metadata.UID).under(r.Metadata.UID), r.Metadata.UID
	if u.perhaps || v.override(shown) == "Hold" || m.inService(shown, r) != yes {
		return
	}
	as, judged := *v, false
	as.known, as.Evidence = nil, maps.Clone(v.Evidence)
	for key, objects := range v.Stopped {
		if as.Evidence[key] == nil {
			as.Evidence[key] = objects
		}
	}
	as.Edited = maps.Clone(v.Edited)
	delete(as.Edited, uid)
	for _, d := range v.Versions[uid] {
		version := read[rule](d)
		if as.frozen(version) != "" {
			continue
		}
		if !version.Spec.NodeSelector.matches(shown.Metadata.Labels) || version.holdsYoung(shown, v.Now) ||
			shown.has(version.Spec.Taint.id()) || m.holds(shown, version, &as, false) != yes {
			return
		}
		judged = true
	}
	m.check("closed", !judged, "all versions of rule %s hold on node %s, and it claims the node", r.Metadata.Name,
		shown.Metadata.Name)
}

// unlisted: a node in service that has rebooted unseen is not claimed while its pods cannot be listed: what is unknown
// is not missing.
func (m *Model) unlisted(shown *node, r *rule, v *View) {
	h := m.node(shown.Metadata.UID)
	u := h.under(r.Metadata.UID)
	if len(r.Spec.Conditions) > 0 || len(r.Spec.Requirements) != 1 || r.Spec.Requirements[0].Pods == nil ||
		!v.Unlisted[r.Spec.Requirements[0].needs[0].key] || !u.reborn || !u.seen || !u.found ||
		shown.Status.NodeInfo.BootID != h.bootID || h.bootedUnder(shown, r) || shown.has(r.Spec.Taint.id()) {
		return
	}
	m.check("closed", false, "rule %s claims node %s, whose pods could not be listed", r.Metadata.Name,
		shown.Metadata.Name)
}

// rearmedBy reports whether a rule has re-armed the node that sets the same completion annotation, and may remove it.
func (m *Model) rearmedBy(n *node, key string, v *View) bool {
	for r := range v.rules() {
		boot := n.record(r.Metadata.UID).BootID
		other := boot != "" && boot != n.Status.NodeInfo.BootID // an administrator may have written it
		if r.Spec.CompletionAnnotation == key && (m.rebooted(n, r) == yes || r.Spec.rearms() && other) {
			return true
		}
	}
	return false
}

// completes: a rule completes only where it holds, or inherits.
func (m *Model) completes(was, is, shown *node, r *rule, v *View) {
	if inherits(was, is, r) {
		return
	}
	m.check("completes", m.holds(shown, r, v, false) != no, "rule %s does not hold on node %s, and completes",
		r.Metadata.Name, shown.Metadata.Name)
}

// completed reports whether a rule has completed a node, or inherits the marker of a deleted rule in this write.
func completed(was, is, shown *node, r *rule) bool {
	return r.Spec.bootstrap() && (shown.marked(r) || inherits(was, is, r))
}

// opened: a claim that is withdrawn has a cause in what the replica was shown.
func (m *Model) opened(was, is, shown *node, r *rule, v *View) {
	rh := m.rules[r.Metadata.UID]
	// On a real API server, seconds is required: the story has edited it away.
	released := r.Spec.Timeout.Action == "Release" && r.Spec.Timeout.Seconds+r.Spec.Timeout.AppearSeconds > 0
	switch {
	case r.Metadata.DeletionTimestamp != nil, r.Spec.DryRun, v.override(shown) == "Release",
		!r.Spec.NodeSelector.matches(shown.Metadata.Labels), r.Spec.Suspend && !shown.has(shown.claim(r.Metadata.UID)),
		completed(was, is, shown, r), len(rh.taints) > 1,
		// It was removed by hand before the rule was edited.
		(len(rh.inForce) > 1 || v.Edited[r.Metadata.UID] || shown.Metadata.DeletionTimestamp != nil) &&
			!shown.has(shown.claim(r.Metadata.UID)):
		return
	case v.edited(r, 0), shown.record(r.Metadata.UID).Passed,
		v.override(shown) == "" && m.node(shown.Metadata.UID).under(r.Metadata.UID).forced: // there may be no room
		return
	case released:
		u := m.node(shown.Metadata.UID).under(r.Metadata.UID)
		if first, _ := r.Spec.timeouts(); u.claimed.IsZero() || !v.Now.Before(u.claimed.Add(first)) {
			if m.holds(shown, r, v, false) == no {
				u.passed = m.now()
			}
			return
		}
	}
	holds := m.holds(shown, r, v, false)
	m.check("opened", holds != no, "rule %s does not hold on node %s, and releases it", r.Metadata.Name,
		shown.Metadata.Name)
	m.window(was, shown, r, v, r.Spec.Stabilization.ReadySeconds, no)
	m.young(shown, r, v)
	if key := r.Spec.CompletionAnnotation; key != "" && holds == yes && !m.rearmedBy(shown, key, v) {
		m.check("announced", is.Metadata.Annotations[key] != "", "rule %s releases node %s, and does not set %s",
			r.Metadata.Name, shown.Metadata.Name, key)
	}
}
