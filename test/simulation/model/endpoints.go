// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"reflect"
	"slices"
	"time"
)

// keptEndpoints is what happened that is about evictionGuard.endpoints.
type keptEndpoints struct {
	// longest is the longest time for which any rule keeps endpoints; 0: none does.
	longest time.Duration
	// written is when the operator wrote last for which nodes it keeps them.
	written time.Time
	// disturbed is when something changed that may change what rules do; slowed is when a slow list of leases arrived.
	disturbed, slowed time.Time
	links             map[string]*link // of nodes, by name
	// armed is when all nodes of a rule were armed last, by the rule's UID.
	armed map[string]time.Time
}

// link is the link of a node.
type link struct {
	cut       bool
	from, to  time.Time // when it was cut last, and repaired
	ended     time.Time // the loss that surely was no outage
	kept      time.Time // the loss that surely was one
	keptUntil time.Time
	keptBy    map[string]bool // the rules under which it was one, by UID
}

// endpoints is the object KeptEndpoints.
type endpoints struct {
	Rules []struct {
		Name, UID string
		Nodes     map[string]string
	}
}

// patience is how long the operator may take for what is due.
const patience = 5 * time.Second

// silentFor and expired are the ages of leases that say something.
const silentFor, expired = 30 * time.Second, 40 * time.Second

// endpointsHold is for how long the rule keeps pods ready at most; 0 if it does not.
func (s *spec) endpointsHold() time.Duration {
	if s.EvictionGuard == nil || s.EvictionGuard.Endpoints == nil {
		return 0
	}
	return time.Duration(min(cmp.Or(s.EvictionGuard.Endpoints.MaxHoldSeconds, 600),
		cmp.Or(s.EvictionGuard.MaxHoldSeconds, 1800))) * time.Second
}

func (m *Model) link(name string) *link {
	if m.kept.links[name] == nil {
		m.kept.links[name] = &link{}
	}
	return m.kept.links[name]
}

// Link notes that the link of a node is cut, or repaired.
func (m *Model) Link(name string, cut bool) {
	l := m.link(name)
	if l.cut = cut; cut {
		l.from = m.now()
	} else {
		l.to = m.now()
	}
}

// Disturbed notes that something changed that may change what rules do about endpoints.
func (m *Model) Disturbed() { m.kept.disturbed = m.now() }

// Slowed notes that a slow list of leases has arrived.
func (m *Model) Slowed() { m.kept.slowed = m.now() }

// lostAt returns since when a node is lost, as the node controller says; zero if it is not.
func (n *node) lostAt() time.Time {
	if ready := n.condition("Ready"); ready.Status == "Unknown" {
		return ready.LastTransitionTime
	}
	return time.Time{}
}

func (p *pod) ready() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c condition) bool {
		return c.Type == "Ready" && c.Status == "True"
	})
}

// unready reports whether the pod is not ready since before a time.
func (p *pod) unready(before time.Time) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c condition) bool {
		return c.Type == "Ready" && c.Status == "False" && c.LastTransitionTime.Before(before)
	})
}

// runs reports whether kubelet has reported the pod's containers ready, and nothing deletes the pod.
func (p *pod) runs() bool {
	containers := p.Status.ContainerStatuses
	return p.Metadata.DeletionTimestamp == nil && len(containers) > 0 && containers[0].Ready
}

// outage reports whether so many nodes are silent that a rule takes this for an outage.
func (s *spec) outage(silent, all int) bool {
	percent := cmp.Or(s.EvictionGuard.Endpoints.OutagePercent, 50)
	return silent*100 > percent*all || silent*100 == percent*all && (silent > 1 || all == 1)
}

// restEndpoints judges the pods of all lost nodes.
func (m *Model) restEndpoints(v *View) {
	if m.kept.longest == 0 || m.now().Before(m.kept.slowed.Add(patience)) {
		return
	}
	for n := range v.nodes() {
		if lost := n.lostAt(); !lost.IsZero() {
			m.keptPods(n, lost, v)
		}
	}
	for r := range v.rules() {
		if m.allReady(r, v) {
			m.kept.armed[r.Metadata.UID] = m.now()
		}
	}
}

// Decided notes which nodes are in an outage, at a moment at which the leader has done all that it has to do.
func (m *Model) Decided(v *View) {
	for n := range v.nodes() {
		if lost := n.lostAt(); m.kept.longest > 0 && !lost.IsZero() {
			m.decided(n, lost, v)
		}
	}
}

func (m *Model) decided(n *node, lost time.Time, v *View) {
	l := m.link(n.Metadata.Name)
	for r := range v.rules() {
		if !m.inOutage(n, lost, r, v) {
			continue
		}
		m.Fields["an outage"] = true
		if !l.kept.Equal(lost) {
			l.kept, l.keptUntil, l.keptBy = lost, time.Time{}, map[string]bool{}
		}
		if until := lost.Add(r.Spec.endpointsHold()); until.After(l.keptUntil) {
			l.keptUntil = until
		}
		l.keptBy[r.Metadata.UID] = true
	}
}

// keptPods judges the pods of a lost node.
func (m *Model) keptPods(n *node, lost time.Time, v *View) {
	m.decided(n, lost, v)
	l, single := m.link(n.Metadata.Name), m.alone(n, lost, v)
	if single {
		l.ended = lost
	}
	for _, d := range v.Running {
		p := read[pod](d)
		if p.Spec.NodeName != n.Metadata.Name || !p.runs() {
			continue
		}
		if ago := m.now().Sub(lost); ago > m.mostHold(n, v)+patience {
			m.check("bounded", !p.ready(), "pod %s is ready, and node %s was lost %s ago", p.Metadata.Name, n.Metadata.Name, ago)
		}
		if single {
			m.Fields["a node alone"] = true
			m.check("single", !p.ready(), "pod %s is ready, and only node %s is lost", p.Metadata.Name, n.Metadata.Name)
		}
		if l.kept.Equal(lost) && !p.unready(lost) && m.kept.disturbed.Before(lost) &&
			m.now().Before(l.keptUntil.Add(-patience)) && !v.evicts(p, n) {
			m.check("lasts", p.ready(), "pod %s is not ready, and node %s is in an outage since %s", p.Metadata.Name,
				n.Metadata.Name, lost.Format(time.TimeOnly))
		}
	}
}

// prolongs judges a write of the object: the time until which pods of a node are kept never becomes later.
func (m *Model) prolongs(before, after Document) {
	if before == nil || after == nil {
		return
	}
	was := map[string]string{}
	for _, r := range read[endpoints](before).Rules {
		for node, until := range r.Nodes {
			was[r.UID+node] = until
		}
	}
	for _, r := range read[endpoints](after).Rules {
		for node, is := range sorted(r.Nodes) {
			until, kept := time.Parse(time.RFC3339, was[r.UID+node])
			later, keeps := time.Parse(time.RFC3339, is)
			m.check("bounded", kept != nil || keeps != nil || !later.After(until),
				"pods of node %s are kept until %s under rule %s, and were until %s", node, is, r.Name, was[r.UID+node])
		}
	}
}

// evicts reports whether the operator evicts a pod, because the guard of a rule has ended. A policy may refuse the
// deletion after the pod was marked not ready.
func (v *View) evicts(p *pod, n *node) bool {
	announced := slices.ContainsFunc(p.Status.Conditions, func(c condition) bool {
		return c.Type == "DisruptionTarget" && c.Status == "True"
	})
	for r := range v.rules() {
		if announced && !n.record(r.Metadata.UID).GuardEnded.IsZero() {
			return true
		}
	}
	return false
}

// mostHold is for how long the pods of a lost node may stay ready: not at all, if no rule keeps them any more.
func (m *Model) mostHold(n *node, v *View) time.Duration {
	for r := range v.rules() {
		if r.Spec.endpointsHold() > 0 && !r.Spec.DryRun && r.Metadata.DeletionTimestamp == nil &&
			r.Spec.NodeSelector.matches(n.Metadata.Labels) && !n.released() {
			return m.kept.longest
		}
	}
	return 0
}

// released reports whether the override Release is on a node, with no end.
func (n *node) released() bool {
	action, until := n.override()
	return action == "Release" && until.IsZero()
}

// keeps reports whether a rule keeps the endpoints of nodes that it selects.
func (r *rule) keeps(v *View) bool {
	return r.Spec.endpointsHold() > 0 && r.Spec.enforced() && r.Metadata.DeletionTimestamp == nil && !r.Spec.bootstrap() &&
		v.frozen(r) == ""
}

// allReady reports whether all nodes that a rule selects are ready: then all are armed.
func (m *Model) allReady(r *rule, v *View) bool {
	for n := range v.nodes() {
		if r.Spec.NodeSelector.matches(n.Metadata.Labels) && n.condition("Ready").Status != "True" {
			return false
		}
	}
	return r.keeps(v) && m.kept.disturbed.Before(m.now())
}

// settledLoss reports whether the link of a node is cut since before it was lost, and nothing else has changed.
func (m *Model) settledLoss(n *node, lost time.Time) bool {
	l := m.link(n.Metadata.Name)
	return l.cut && l.from.Before(lost) && m.kept.disturbed.Before(l.from)
}

// alone: a node is lost that surely is in no outage, and its lease has expired.
func (m *Model) alone(n *node, lost time.Time, v *View) bool {
	now, l := m.now(), m.link(n.Metadata.Name)
	if !m.settledLoss(n, lost) || now.Before(lost.Add(patience)) || now.Before(l.from.Add(expired+patience)) {
		return false
	}
	for r := range v.rules() {
		if r.Spec.bootstrap() && r.Spec.endpointsHold() > 0 {
			return false
		}
		if !r.keeps(v) || !r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			continue
		}
		silent, all := 0, 0
		for other := range v.nodes() {
			o := m.link(other.Metadata.Name)
			at := other.lostAt()
			if !r.Spec.NodeSelector.matches(other.Metadata.Labels) ||
				other != n && !at.IsZero() && o.ended.Equal(at) && at.Before(l.from) {
				continue
			}
			if all++; o.cut || o.to.After(l.from) {
				silent++
			}
		}
		if r.Spec.outage(silent, all) {
			return false
		}
	}
	return true
}

// inOutage reports whether a lost node surely is in an outage under a rule, which was armed when the node was lost.
// Each rule decides for itself: of the nodes that were lost before, only those count whose pods this rule keeps.
func (m *Model) inOutage(n *node, lost time.Time, r *rule, v *View) bool {
	action, _ := n.override()
	if !m.settledLoss(n, lost) || m.now().Before(lost.Add(patience)) || action == "Release" {
		return false
	}
	hold, armed := r.Spec.endpointsHold(), m.kept.armed[r.Metadata.UID]
	if !r.keeps(v) || !r.Spec.NodeSelector.matches(n.Metadata.Labels) || !m.kept.disturbed.Before(armed) ||
		armed.After(lost) || !lost.Before(armed.Add(hold*3/4-patience)) || !m.now().Before(lost.Add(hold)) {
		return false
	}
	quiet, all := 0, 0
	for other := range v.nodes() {
		if !r.Spec.NodeSelector.matches(other.Metadata.Labels) {
			continue
		}
		all++
		o, at := m.link(other.Metadata.Name), other.lostAt()
		kept := o.kept.Equal(at) && o.keptBy[r.Metadata.UID]
		if o.cut && lost.Sub(o.from) > silentFor && (at.IsZero() || !at.Before(lost) || kept) {
			quiet++
		}
	}
	return r.Spec.outage(quiet, all)
}

// PodWritten judges what the policy makes of a write of a pod's status.
func (m *Model) PodWritten(controller bool, before, sent, stored Document) {
	was, asked, is := read[pod](before), read[pod](sent), read[pod](stored)
	kept := !reflect.DeepEqual(asked, is)
	marks := was.ready() && !asked.ready() && controller && was.Status.Phase == asked.Status.Phase &&
		len(was.Status.Conditions) == len(asked.Status.Conditions)
	for i := range asked.Status.Conditions {
		marks = marks && (asked.Status.Conditions[i].Type == "Ready" ||
			reflect.DeepEqual(asked.Status.Conditions[i], was.Status.Conditions[i]))
	}
	m.check("passes", marks || !kept, "the policy changes a write of pod %s that does not only mark it not ready",
		is.Metadata.Name)
	if marks {
		m.check("unarmed", !kept || m.now().Before(m.kept.written.Add(m.kept.longest)),
			"the policy keeps pod %s ready, and the operator has last written at %s", is.Metadata.Name,
			m.kept.written.Format(time.TimeOnly))
	}
}
