// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
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
	m.keeps(was, is, v)
	for r := range v.rules() {
		m.moves(was, is, r)
		m.frozen(was, is, r, v)
		if !h.full { // its records may not change
			m.stands(was, is, r, v)
		}
		if m.rules[r.Metadata.UID] != nil && shown != nil && !h.full {
			m.moveUnder(was, is, shown, r, v)
		}
	}
	h.last = is
	m.returned(was, is, v)
}

// moveUnder judges one write of a node by one rule.
func (m *Model) moveUnder(was, is, shown *node, r *rule, v *View) { //nolint:gocyclo // one predicate after the other
	uid, h := r.Metadata.UID, m.node(is.Metadata.UID)
	u := h.under(uid)
	had, has := was.claim(uid), is.claim(uid)
	m.boots(was, is, shown, r, v)
	if published := is.record(uid).Published; shown.Metadata.DeletionTimestamp != nil && published != "" {
		m.check("published", published == was.record(uid).Published,
			"rule %s begins to publish on node %s, which is being deleted", r.Metadata.Name, is.Metadata.Name)
	}
	switch {
	case had == "" && has != "":
		m.closed(shown, r, v)
		u.observed.knower = 0 // the process saw another verdict, perhaps of stale evidence that was fresh again
		u.claimer, u.granted = v.Process, false
		u.counted(shown, r)
		u.forced = (v.override(shown) == "Hold" || shown.Spec.Unschedulable) && r.Spec.limited() &&
			m.inService(shown, r) != no
		u.claimed = latest(v.Now.Truncate(time.Second), shown.Metadata.CreationTimestamp)
		u.claimedAt, u.unsure, u.passed = m.now().Truncate(time.Second), false, time.Time{}
		u.free = shown.Spec.Unschedulable
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
				m.rate(r, v.served(is.record(uid).Since, is), "claims")
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
	// A node in service has a release in its record when it is first held: it has not become ready.
	if has == "" && was.record(uid).Released.IsZero() && !is.record(uid).Released.IsZero() {
		m.rules[uid].ready = m.now()
	}
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
	}
	if has == "" && (had != "" || was.Metadata.Annotations[r.key()] != is.Metadata.Annotations[r.key()]) ||
		!was.marked(r) && is.marked(r) {
		if r.Spec.NodeSelector.matches(shown.Metadata.Labels) && v.override(shown) == "" {
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
func (m *Model) keeps(was, is *node, v *View) {
	for key, value := range was.Metadata.Annotations {
		uid, ok := strings.CutPrefix(key, markerPrefix)
		h := m.rules[uid]
		if !ok || h == nil || h.last.Metadata.DeletionTimestamp == nil || was.record(uid).BootID != is.record(uid).BootID {
			continue
		}
		_, stays := is.Metadata.Annotations[key]
		inherited := slices.Contains(slices.Collect(maps.Values(is.Metadata.Annotations)), value)
		deleted := *h.last.Metadata.DeletionTimestamp
		m.check("keeps", stays || inherited || m.now().Sub(deleted) >= 10*time.Minute || !v.Jumped.Before(deleted),
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

// frozen: nothing of a rule differs that cannot be judged, unless a person asks for it: by Release, or by dry-run. That
// does not help while another controller manages its taint; a claim ends if that controller has removed the taint.
func (m *Model) frozen(was, is *node, r *rule, v *View) {
	why := v.frozen(r)
	asked := v.override(was) == "Release" || r.Spec.DryRun
	if why == "" || asked && v.frozenByOthers(r) == "" || strings.HasSuffix(why, perhapsTheirs) ||
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
	for key, value := range was.Metadata.Annotations {
		_, stays := is.Metadata.Annotations[key]
		if !stays && strings.HasPrefix(key, markerPrefix) && value == fmt.Sprintf(`{"rule-name":%q}`, r.Metadata.Name) {
			return true
		}
	}
	return false
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
		return
	}
	m.check("closed", r.Spec.NodeSelector.matches(shown.Metadata.Labels),
		"rule %s does not select node %s, and claims it", r.Metadata.Name, name)
	if v.override(shown) == "Hold" || r.Spec.rearms() && !h.boot.IsZero() && !h.under(r.Metadata.UID).opened {
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
		if first, _ := r.Spec.timeouts(); u.claimed.IsZero() || u.unsure || v.set(u.claimedAt) ||
			u.claimed.After(v.Now) || !v.Now.Before(u.claimed.Add(first)) {
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
