// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

// End is how everything is when it has come to rest.
type End struct {
	Nodes, Rules, Pods, Claims []Document
}

// Rest judges the end of a story.
func (m *Model) Rest(e *End) {
	v := &View{Now: m.now(), Nodes: map[string]Document{}, Rules: map[string]Document{}, Pods: map[string][]Document{},
		Claims: map[string]Document{}}
	for _, d := range e.Rules {
		r := read[rule](d)
		v.Rules[r.Metadata.Name] = d
		for i := range r.Spec.Requirements {
			if p := r.Spec.Requirements[i].Pods; p != nil {
				key := p.Namespace + "/" + p.Selector.String()
				v.Pods[key] = nil
				for _, d := range e.Pods {
					if p.Selector.matches(read[pod](d).Metadata.Labels) {
						v.Pods[key] = append(v.Pods[key], d)
					}
				}
			}
		}
	}
	v.Running = e.Pods
	for _, d := range e.Claims {
		v.Claims[read[claim](d).Metadata.Name] = d
	}
	for _, d := range e.Nodes {
		v.Nodes[read[node](d).Metadata.Name] = d
	}
	for _, d := range e.Nodes {
		m.restNode(read[node](d), v)
	}
	for _, d := range e.Rules {
		m.restRule(read[rule](d), v)
	}
	m.restPods(e, v)
	m.restStarts(v)
}

// restStarts: a start is counted once, with the record that says that it has ended, or when the node is deleted.
func (m *Model) restStarts(v *View) {
	m.Starts = map[string]int{}
	named := map[string]int{}
	for _, h := range m.rules {
		named[h.last.Metadata.Name]++
	}
	there := map[string]*node{}
	for _, d := range v.Nodes {
		n := read[node](d)
		there[n.Metadata.UID] = n
	}
	for name, d := range v.Rules {
		if named[name] > 1 {
			continue
		}
		rule, most := read[rule](d).Metadata.UID, 0
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
	known := map[string]bool{}
	for _, d := range v.Rules {
		known[read[rule](d).Metadata.UID] = true
	}
	claimed := n.claims()
	for key := range sorted(n.Metadata.Annotations) {
		for _, prefix := range []string{recordPrefix, markerPrefix} {
			if uid, ok := strings.CutPrefix(key, prefix); ok {
				m.check("left", known[uid], "node %s has annotation %s of a rule that is gone", n.Metadata.Name, key)
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
	for _, d := range v.Rules {
		if r := read[rule](d); r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			out[r.Spec.Taint.id()] = true
		}
	}
	return out
}

// taintWanted says whether a taint has to be on a node: yes, if some rule wants it; no, if none does, and one manages
// it.
func (m *Model) taintWanted(n *node, id string, v *View) answer {
	managed, open := false, false
	for _, d := range v.Rules {
		r := read[rule](d)
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
	case s.Suspend || s.Timeout.Seconds > 0 && s.Timeout.Action == "Release":
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
	for _, d := range sorted(v.Nodes) {
		n := read[node](d)
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
	if r.Spec.Timeout.Seconds > 0 && r.Spec.Timeout.Action == "Release" {
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
	for _, d := range sorted(v.Nodes) {
		n := read[node](d)
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
