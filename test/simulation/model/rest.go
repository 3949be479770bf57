// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
)

// Rest judges the end of a story, when everything has come to rest.
func (m *Model) Rest(v *View) {
	v.Process = 0
	m.Quiet(v)
	for r := range v.rules() {
		m.restReplaced(r, v)
	}
	m.restStarts(v)
}

// Quiet judges a moment at which everything is delivered and answered, and a leader runs: what is due has happened.
func (m *Model) Quiet(v *View) {
	for n := range v.nodes() {
		if h := m.node(n.Metadata.UID); h.found.IsZero() {
			h.found = m.now()
		}
		m.restNode(n, v)
		m.restOverride(n, v)
		m.restPublished(n, v)
	}
	for r := range v.rules() {
		m.restRule(r, v)
	}
	m.restPods(v)
	m.restEndpoints(v)
	m.know(v)
	m.settled(v)
}

// Refused judges a quiet moment at which a policy refuses all writes of some nodes: the others do not wait for them.
func (m *Model) Refused(v *View, nodes map[string]bool) {
	v.Refused = nodes
	for r := range v.rules() {
		if r.Metadata.DeletionTimestamp == nil && !m.hasFull(r, v) { // else it holds no more nodes
			m.room(r, v)
		}
	}
}

// named are objects by their names.
func named(objects []Document) map[string]Document {
	out := map[string]Document{}
	for _, d := range objects {
		out[d.Key()] = d
	}
	return out
}

// restStarts: a start is counted once, with the record that says that it has ended, or when the node is deleted.
func (m *Model) restStarts(v *View) {
	m.Starts = map[string]int{}
	rules := map[string]int{} // by name
	for _, h := range m.rules {
		rules[h.last.Metadata.Name]++
	}
	there := map[string]*node{}
	for n := range v.nodes() {
		there[n.Metadata.UID] = n
	}
	for r := range v.rules() {
		name, rule, most, full := r.Metadata.Name, r.Metadata.UID, 0, false
		for uid, h := range m.nodes {
			full = full || h.full && h.rules[rule] != nil // without a record, a start is counted again after a restart
			most += h.under(rule).records
			n := there[uid]
			if n == nil || n.record(rule).started() || h.under(rule).unmatched || // then it may never have had a record
				m.existing(n, r) != no { // an edited selector excludes older nodes
				most++
			}
		}
		if rules[name] == 1 && !full {
			m.Starts[name] = most
		}
	}
}

func (m *Model) restNode(n *node, v *View) {
	if m.node(n.Metadata.UID).full {
		m.restFull(n, v)
		return
	}
	m.moved(n, v)
	claimed := n.claims()
	for key := range sorted(n.Metadata.Annotations) {
		for _, prefix := range []string{recordPrefix, markerPrefix} {
			if uid, ok := strings.CutPrefix(key, prefix); ok && (prefix == recordPrefix || v.Process == 0) {
				m.check("left", v.knows(uid), "node %s has annotation %s of a rule that is gone", n.Metadata.Name, key)
			}
		}
	}
	for id := range sorted(m.taintsOf(n, v)) {
		want := m.taintWanted(n, id, v)
		if want == unknown {
			continue
		}
		m.check("taints", n.has(id) == (want == yes), "taint %s on node %s: %v, and a rule wants it: %s", id,
			n.Metadata.Name, n.has(id), want)
		if want == yes {
			m.value(n, id, v)
		}
	}
	h := m.node(n.Metadata.UID)
	for _, t := range n.Spec.Taints {
		// A process that has not known the rule cannot tell the claim of admission from a forged one.
		doubtful := slices.ContainsFunc(h.admitted[t.id()], func(uid string) bool {
			rh := m.rules[uid]
			return rh.gone || !rh.removed.IsZero() && !n.Metadata.CreationTimestamp.Before(rh.removed)
		})
		known := claimed[t.id()] || h.foreign[t.id()] || m.beside.taints[t.id()]
		m.check("left", known || m.Unguarded || doubtful, "node %s has taint %s, which no rule claims",
			n.Metadata.Name, t.id())
	}
}

// taintsOf are the taints that some rule which selects the node asks for.
func (m *Model) taintsOf(n *node, v *View) map[string]bool {
	out := map[string]bool{}
	for r := range v.rules() {
		if r.Spec.Taint.Key != "" && r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			out[r.Spec.Taint.id()] = true
		}
	}
	return out
}

// taintWanted says whether a taint has to be on a node: yes, if some rule wants it; no, if none does, and one manages
// it.
func (m *Model) taintWanted(n *node, id string, v *View) answer {
	managed, open := false, false
	for r := range v.rules() {
		if r.Spec.Taint.id() != id || !r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			if n.claim(r.Metadata.UID) == id && (r.Spec.Taint.id() != id || v.frozen(r) != "") {
				open = true
			}
			continue
		}
		switch m.wants(n, r, v) {
		case yes:
			return yes
		case unknown:
			open = true
		}
		managed = managed || r.Spec.enforced()
	}
	if open || !managed || v.theirs(id) != no { // a deleted rule leaves the taint of another controller there
		return unknown
	}
	return no
}

// wants says whether a rule that selects a node wants its taint there, after everything has come to rest.
//
//nolint:gocyclo // one case after another, as the documentation has them
func (m *Model) wants(n *node, r *rule, v *View) answer {
	h, s := m.node(n.Metadata.UID), &r.Spec
	switch {
	case v.frozen(r) != "":
		return unknown
	case s.DryRun, r.Metadata.DeletionTimestamp != nil:
		return no
	case v.override(n) == "Release":
		return no
	case n.Metadata.DeletionTimestamp != nil: // it gets no new taint
		return unknown
	case v.override(n) == "Hold":
		if s.Suspend {
			return unknown
		}
		return yes
	case s.bootstrap() && n.marked(r):
		if v.Rehearses && m.rebooted(n, r) == yes && !h.under(r.Metadata.UID).opened {
			return unknown // in dry-run, a reboot leaves the marker on the node
		}
		return no
	}
	holds, passes := m.holds(n, r, v, true), m.passes(n, r, v)
	switch {
	case holds == unknown, holds == yes && !m.steady(n, r, yes, s.Stabilization.ReadySeconds, v):
		return unknown
	case holds == yes:
		return no
	case s.Suspend || passes == unknown:
		return unknown
	case passes == yes:
		return no
	case !m.steady(n, r, no, s.Stabilization.UnreadySeconds, v):
		return unknown
	case (h.occupied || m.existing(n, r) != no) && s.ExistingNodes != "" && s.ExistingNodes != "All":
		return unknown
	case s.rearms() && !h.boot.IsZero() && (s.limited() || s.Taint.Effect == "NoExecute"):
		return unknown // a reboot that was found later is within the limit, and NoExecute waits until it is confirmed
	case s.limited() && !n.Spec.Unschedulable && (h.occupied || h.under(r.Metadata.UID).opened ||
		h.under(r.Metadata.UID).perhaps || m.existing(n, r) != no):
		return unknown
	}
	return yes
}

// letsPass: a timeout of the rule may have released the node, or has, maybe before an edit.
func (n *node) letsPass(r *rule) bool {
	return r.Spec.Timeout.Seconds > 0 && r.Spec.Timeout.Action == "Release" || n.record(r.Metadata.UID).Passed
}

// existing says whether a node was there before a rule was last put in force.
func (m *Model) existing(n *node, r *rule) answer {
	rh := m.rules[r.Metadata.UID]
	created := n.Metadata.CreationTimestamp
	switch {
	case rh != nil && created.Before(rh.inForce[r.Metadata.Generation]):
		if rh.unseen(n, rh.inForce[r.Metadata.Generation]) {
			return unknown
		}
		return yes
	case created.Before(r.Status.InForce.StartTime):
		return unknown
	}
	return no
}

// restRule: the status counts what there is, and a deleted rule is gone.
func (m *Model) restRule(r *rule, v *View) {
	name := r.Metadata.Name
	if r.Metadata.DeletionTimestamp != nil && v.Process != 0 {
		return // it may wait for nodes
	}
	m.check("gone", r.Metadata.DeletionTimestamp == nil, "rule %s is deleted, and still there", name)
	if r.Metadata.DeletionTimestamp != nil {
		return
	}
	if m.hasFull(r, v) {
		return
	}
	m.check("spared", !r.Status.InForce.StartTime.After(m.now()), "rule %s is in force since %s: new nodes are existing "+
		"ones", name, r.Status.InForce.StartTime)
	matched, held := 0, 0
	for n := range v.nodes() {
		if !r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			continue
		}
		matched++
		if n.claim(r.Metadata.UID) != "" {
			held++
		}
		m.restMarker(n, r, v)
		m.calms(n, r, v)
	}
	m.lifted(r, v)
	m.rehearsed(r, v)
	st := &r.Status
	m.check("status", st.Nodes.Matched == matched && st.Nodes.Pending == 0,
		"rule %s counts %d nodes, %d of them pending; it selects %d",
		name, st.Nodes.Matched, st.Nodes.Pending, matched)
	if v.frozen(r) == "" && r.Spec.Taint.Key != "" {
		m.check("status", st.Nodes.Held == held, "rule %s counts %d held nodes; it claims %d", name, st.Nodes.Held, held)
	}
	m.counts(r, v)
	m.results(r, v)
	m.served(r, v)
	m.check("status", st.ObservedGeneration == r.Metadata.Generation, "the status of rule %s is of generation %d",
		name, st.ObservedGeneration)
	if v.frozen(r) != "" {
		blamed := false
		for _, c := range st.Conditions {
			blamed = blamed || c.Type == "Ready" && c.Status == "False"
		}
		m.check("blamed", blamed, "rule %s is frozen (%s), and its status does not say so", name, v.frozen(r))
	}
	m.forced(r, v)
	m.room(r, v)
	m.restPlaces(r, v)
	m.stays(r, v)
}

// restOverride: an override that has ended is removed from a node that a rule in force selects.
func (m *Model) restOverride(n *node, v *View) {
	for r := range v.rules() {
		if r.Spec.enforced() && r.Metadata.DeletionTimestamp == nil && v.frozen(r) == "" &&
			r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			m.check("lapsed", !v.lapsed(n), "node %s still has the override %q", n.Metadata.Name,
				n.Metadata.Annotations[override])
			return
		}
	}
}

// lifted: a rule in dry-run claims nothing, and no rule claims a node with the override Release, even if it is frozen,
// or does not select the node any more.
func (m *Model) lifted(r *rule, v *View) {
	for n := range v.nodes() {
		if (r.Spec.DryRun || v.override(n) == "Release") && v.frozenByOthers(r) == "" {
			m.check("lifted", n.claim(r.Metadata.UID) == "", "rule %s claims node %s, which it must release",
				r.Metadata.Name, n.Metadata.Name)
		}
	}
}

// restMarker: a bootstrap-only rule that holds has completed.
func (m *Model) restMarker(n *node, r *rule, v *View) {
	if n.Metadata.DeletionTimestamp != nil || !r.Spec.bootstrap() || !r.Spec.enforced() || v.override(n) != "" ||
		v.frozen(r) != "" || m.holds(n, r, v, true) != yes {
		return
	}
	if n.letsPass(r) {
		return
	}
	if !m.steady(n, r, yes, r.Spec.Stabilization.ReadySeconds, v) {
		return
	}
	m.check("marker", n.marked(r), "rule %s holds on node %s, and has not completed it", r.Metadata.Name, n.Metadata.Name)
}

// value: a taint has the value of the only rule that ever asked for it, unless someone else has put it there.
func (m *Model) value(n *node, id string, v *View) {
	var of *rule
	for _, h := range m.rules {
		if h.taints[id] && of != nil {
			return
		} else if h.taints[id] {
			of = h.last
		}
	}
	at := slices.IndexFunc(n.Spec.Taints, func(t taint) bool { return t.id() == id })
	if of == nil || at < 0 || m.node(n.Metadata.UID).foreign[id] || of.Spec.Taint.id() != id || v.frozen(of) != "" ||
		!of.Spec.enforced() || of.Metadata.DeletionTimestamp != nil || !of.Spec.NodeSelector.matches(n.Metadata.Labels) {
		return
	}
	m.check("value", n.Spec.Taints[at].Value == of.Spec.Taint.Value,
		"taint %s of node %s has the value %q, and rule %s %q", id, n.Metadata.Name, n.Spec.Taints[at].Value,
		of.Metadata.Name, of.Spec.Taint.Value)
}

// counts: the status of a rule counts each node that it selects once, as what it is.
func (m *Model) counts(r *rule, v *View) {
	c := &r.Status.Nodes
	m.check("status", c.Ready+c.Held+c.Exempt+c.Failed+c.Pending == c.Matched && c.Failed == 0,
		"the counts of rule %s are %+v", r.Metadata.Name, *c)
	if v.frozen(r) != "" || !r.Spec.enforced() || r.Spec.Taint.Key == "" {
		return
	}
	ready, exempt, open := 0, 0, 0
	for n := range v.nodes() {
		if !r.Spec.NodeSelector.matches(n.Metadata.Labels) || n.claim(r.Metadata.UID) != "" {
			continue
		}
		switch m.counted(n, r, v) {
		case yes:
			ready++
		case no:
			exempt++
		default:
			open++
		}
	}
	m.check("status", ready <= c.Ready && c.Ready <= ready+open && exempt <= c.Exempt && c.Exempt <= exempt+open,
		"the counts of rule %s are %+v: %d nodes are ready, %d are exempt, and %d may be either", r.Metadata.Name, *c, ready,
		exempt, open)
}

// counted says whether a node without a claim counts as ready under a rule, or as exempt.
func (m *Model) counted(n *node, r *rule, v *View) answer {
	switch holds := m.holds(n, r, v, true); {
	case v.override(n) == "Release":
		return no
	case v.override(n) != "" || n.Metadata.DeletionTimestamp != nil:
		return unknown
	case r.Spec.bootstrap() && n.marked(r), holds == yes && !r.Spec.bootstrap() &&
		m.steady(n, r, yes, r.Spec.Stabilization.ReadySeconds, v):
		return yes
	case holds == no && !r.Spec.bootstrap() && m.steady(n, r, no, r.Spec.Stabilization.UnreadySeconds, v):
		return no
	}
	return unknown
}

// rebooted reports whether a node has rebooted under a rule that re-arms.
func (m *Model) rebooted(n *node, r *rule) answer {
	if r.Spec.rearms() && !m.node(n.Metadata.UID).boot.IsZero() {
		return yes
	}
	return no
}
