// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
)

// Rest judges the end of a story, when everything has come to rest.
func (m *Model) Rest(nodes, rules, pods, claims []Document) {
	v := &View{Now: m.now(), Nodes: named(nodes), Rules: named(rules), Claims: named(claims), Running: pods,
		Pods: map[string][]Document{}}
	for r := range each[rule](v.Rules) {
		for i := range r.Spec.Requirements {
			if p := r.Spec.Requirements[i].Pods; p != nil {
				v.Pods[p.watch()] = slices.DeleteFunc(slices.Clone(pods), func(d Document) bool {
					return !p.Selector.matches(read[pod](d).Metadata.Labels)
				})
			}
		}
	}
	for n := range each[node](v.Nodes) {
		m.restNode(n, v)
	}
	for r := range each[rule](v.Rules) {
		m.restRule(r, v)
	}
	m.restPods(v)
	m.restStarts(v)
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
	for n := range each[node](v.Nodes) {
		there[n.Metadata.UID] = n
	}
	for r := range each[rule](v.Rules) {
		name, rule, most := r.Metadata.Name, r.Metadata.UID, 0
		if rules[name] > 1 {
			continue
		}
		for uid, h := range m.nodes {
			most += h.under(rule).records
			n := there[uid]
			if n == nil || n.record(rule).started() {
				most++
			}
		}
		m.Starts[name] = most
	}
}

func (m *Model) restNode(n *node, v *View) {
	claimed := n.claims()
	for key := range sorted(n.Metadata.Annotations) {
		for _, prefix := range []string{recordPrefix, markerPrefix} {
			if uid, ok := strings.CutPrefix(key, prefix); ok {
				m.check("left", v.knows(uid), "node %s has annotation %s of a rule that is gone", n.Metadata.Name, key)
			}
		}
	}
	m.restPublished(n, v)
	for id := range sorted(m.taintsOf(n, v)) {
		want := m.taintWanted(n, id, v)
		if want == unknown {
			continue
		}
		m.check("taints", n.has(id) == (want == yes), "taint %s on node %s: %v, and a rule wants it: %s", id,
			n.Metadata.Name, n.has(id), want)
	}
	h := m.node(n.Metadata.UID)
	for _, t := range n.Spec.Taints {
		m.check("left", claimed[t.id()] || h.foreign[t.id()], "node %s has taint %s, which no rule claims",
			n.Metadata.Name, t.id())
	}
}

// taintsOf are the taints that some rule which selects the node asks for.
func (m *Model) taintsOf(n *node, v *View) map[string]bool {
	out := map[string]bool{}
	for r := range each[rule](v.Rules) {
		if r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			out[r.Spec.Taint.id()] = true
		}
	}
	return out
}

// taintWanted says whether a taint has to be on a node: yes, if some rule wants it; no, if none does, and one manages
// it.
func (m *Model) taintWanted(n *node, id string, v *View) answer {
	managed, open := false, false
	for r := range each[rule](v.Rules) {
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
	if open || !managed {
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
	case s.DryRun:
		return no
	case n.override() == "Release":
		return no
	case n.override() == "Hold":
		if s.Suspend {
			return unknown
		}
		return yes
	case s.bootstrap() && n.marked(r):
		return no
	}
	holds := m.holds(n, r, v, true)
	switch {
	case holds != no:
		return map[answer]answer{yes: no, unknown: unknown}[holds]
	case s.Suspend || n.letsPass(r):
		return unknown
	case (h.occupied || m.existing(n, r) != no) && s.ExistingNodes != "" && s.ExistingNodes != "All":
		return unknown
	case s.rearms() && !h.boot.IsZero() && (s.MaxUnavailable != nil || s.Taint.Effect == "NoExecute"):
		return unknown // a reboot that was found later is within the limit, and NoExecute waits until it is confirmed
	case s.MaxUnavailable != nil && (h.occupied || h.under(r.Metadata.UID).opened || h.under(r.Metadata.UID).perhaps ||
		m.existing(n, r) != no):
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
		return yes
	case created.Before(r.Status.InForce.Since):
		return unknown
	}
	return no
}

// restRule: the status counts what there is, and a deleted rule is gone.
func (m *Model) restRule(r *rule, v *View) {
	name := r.Metadata.Name
	m.check("gone", r.Metadata.DeletionTimestamp == nil, "rule %s is deleted, and still there", name)
	if r.Metadata.DeletionTimestamp != nil {
		return
	}
	matched, held := 0, 0
	for n := range each[node](v.Nodes) {
		if !r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			continue
		}
		matched++
		if n.claim(r.Metadata.UID) != "" {
			held++
		}
		m.restMarker(n, r, v)
	}
	st := &r.Status
	m.check("status", st.Nodes.Matched == matched && st.Nodes.Pending == 0,
		"rule %s counts %d nodes, %d of them pending; it selects %d",
		name, st.Nodes.Matched, st.Nodes.Pending, matched)
	if v.frozen(r) == "" {
		m.check("status", st.Nodes.Held == held, "rule %s counts %d held nodes; it claims %d", name, st.Nodes.Held, held)
	}
	m.check("status", st.ObservedGeneration == r.Metadata.Generation, "the status of rule %s is of generation %d",
		name, st.ObservedGeneration)
	if v.frozen(r) != "" {
		blamed := false
		for _, c := range st.Conditions {
			blamed = blamed || c.Type == "Ready" && c.Status == "False"
		}
		m.check("blamed", blamed, "rule %s is frozen (%s), and its status does not say so", name, v.frozen(r))
	}
	m.room(r, v)
	m.restReplaced(r, v)
}

// restMarker: a bootstrap-only rule that holds has completed.
func (m *Model) restMarker(n *node, r *rule, v *View) {
	if !r.Spec.bootstrap() || !r.Spec.enforced() || n.override() != "" || v.frozen(r) != "" || m.holds(n, r, v,
		true) != yes {
		return
	}
	if n.letsPass(r) {
		return
	}
	m.check("marker", n.marked(r), "rule %s holds on node %s, and has not completed it", r.Metadata.Name, n.Metadata.Name)
}

// room: where the limit leaves room, no node in service stays open on which the rule has not held for long.
func (m *Model) room(r *rule, v *View) {
	s := &r.Spec
	if s.MaxUnavailable == nil || !s.enforced() || v.frozen(r) != "" || s.Timeout.Seconds > 0 ||
		s.ExistingNodes != "" || s.bootstrap() {
		return
	}
	claimed, all, open := 0, 0, ""
	for n := range each[node](v.Nodes) {
		used := m.node(n.Metadata.UID).under(r.Metadata.UID).used
		if !s.NodeSelector.matches(n.Metadata.Labels) || n.Spec.Unschedulable && !used {
			continue
		}
		service := m.inService(n, r)
		if service != yes || n.override() != "" {
			return
		}
		all++
		switch {
		case n.claim(r.Metadata.UID) != "":
			claimed++
		case m.holds(n, r, v, true) == no:
			open = n.Metadata.Name
		}
	}
	if open != "" {
		m.check("room", claimed >= allowed(s.MaxUnavailable, all), "rule %s leaves node %s open, and claims %d of %d",
			r.Metadata.Name, open, claimed, all)
	}
}
