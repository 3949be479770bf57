// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// serviceAge is how old a node is at least that is in service when it comes to match a rule, with some slack.
const serviceAge = 10*time.Minute + 5*time.Second

// arrived reports whether a node is surely in service because it is old and runs pods, and has no record of the rule.
func (m *Model) arrived(shown *node, r *rule, v *View) bool {
	return shown.Metadata.Annotations[r.key()] == "" && v.Now.Sub(shown.Metadata.CreationTimestamp) > serviceAge &&
		v.busy(shown)
}

// busy reports whether a node has pods that are not of DaemonSets. None of them tolerates anything.
func (v *View) busy(n *node) bool {
	return slices.ContainsFunc(v.Running, func(d Document) bool {
		p := read[pod](d)
		return p.Spec.NodeName == n.Metadata.Name && len(p.Metadata.OwnerReferences) == 0
	})
}

// spared: existingNodes exempts a node that was in service before the rule until the rule has held there once.
func (m *Model) spared(shown *node, r *rule, v *View) {
	h := m.node(shown.Metadata.UID)
	arrived := m.arrived(shown, r, v)
	if v.override(shown) == "Hold" || h.under(r.Metadata.UID).opened || h.under(r.Metadata.UID).perhaps ||
		h.under(r.Metadata.UID).reborn || v.edited(r, 0) || r.Spec.rearms() && !h.boot.IsZero() ||
		!arrived && !shown.Metadata.CreationTimestamp.Before(r.Metadata.CreationTimestamp) {
		return
	}
	switch name := shown.Metadata.Name; r.Spec.ExistingNodes {
	case "None":
		m.check("spared", false, "rule %s claims node %s, which was there before", r.Metadata.Name, name)
	case "Idle":
		m.check("spared", !h.under(r.Metadata.UID).busy && !v.busy(shown), "rule %s claims node %s, which was busy",
			r.Metadata.Name, name)
	default:
		m.Decisive["spared"]++
	}
}

// booting: if a process has started since a node in service rebooted, the node stays in service: the limit applies, and
// NoExecute waits until the boot is confirmed.
func (m *Model) booting(shown *node, r *rule, v *View) {
	h := m.node(shown.Metadata.UID)
	u := h.under(r.Metadata.UID)
	if !r.Spec.rearms() || !u.reborn || !u.seen || !u.found || v.override(shown) == "Hold" ||
		shown.Status.NodeInfo.BootID != h.bootID || v.edited(r, 0) || h.bootedUnder(shown, r) {
		return
	}
	u.served = true
	if r.Spec.Taint.Effect == "NoExecute" {
		m.check("booting", !v.Now.Before(h.booted.Add(2*time.Minute-time.Second)),
			"rule %s puts NoExecute on node %s, which has just rebooted", r.Metadata.Name, shown.Metadata.Name)
	}
}

// boots notes what a write does about a node's last reboot: the rule that takes it for over holds.
func (m *Model) boots(was, is, shown *node, r *rule, v *View) {
	h, before := m.node(is.Metadata.UID), was.record(r.Metadata.UID).BootID
	if is.record(r.Metadata.UID).BootID == h.bootID && before != h.bootID {
		h.under(r.Metadata.UID).found = v.Started.After(h.booted)
	}
	if before != "" && h.bootedUnder(is, r) && !h.bootedUnder(was, r) {
		m.check("booting", m.holds(shown, r, v, true) != no,
			"rule %s does not hold on node %s, and takes its reboot for over", r.Metadata.Name, is.Metadata.Name)
	}
}

// disarms notes that an edit ends the re-arming of a rule. A node in service may stay so if no record of the rule has
// its last reboot: the operator may not have seen the reboot.
func (m *Model) disarms(was, is *rule) {
	if was == nil || !was.Spec.rearms() || is.Spec.rearms() {
		return
	}
	for _, h := range m.nodes {
		u := h.rules[is.Metadata.UID]
		if u == nil || h.last == nil || h.boot.IsZero() {
			continue
		}
		rec := h.last.record(is.Metadata.UID)
		u.perhaps = u.perhaps || rec.BootID != h.bootID && (u.reborn || !rec.Released.IsZero())
	}
}

// bootedUnder reports whether a node has become ready under a rule since its last reboot, as its record says.
func (h *nodeHistory) bootedUnder(n *node, r *rule) bool {
	rec := n.record(r.Metadata.UID)
	return !h.boot.IsZero() && rec.BootID == h.bootID && rec.RearmedAt.IsZero()
}

// perhapsSinceBoot reports whether a node may have become ready since its last reboot: its record says so, but the
// model could not judge it, as after an edit of the rule. If so, evidence from before the boot counts again.
func (h *nodeHistory) perhapsSinceBoot(n *node, r *rule) bool {
	return h.under(r.Metadata.UID).perhaps && h.bootedUnder(n, r)
}

// requires: another rule holds on the same node. Under a rule that re-arms, this counts after a boot once it is
// confirmed, or once the other rule, which re-arms as well, has become ready.
func (m *Model) requires(n *node, r, other *rule, v *View, late bool) answer {
	is, h := m.satisfied(n, other, v, late), m.node(n.Metadata.UID)
	switch {
	case is != yes || !r.Spec.rearms() || h.boot.IsZero() || h.under(r.Metadata.UID).opened:
		return is
	case other.Spec.rearms() || v.Process == 0 || n.Status.NodeInfo.BootID != h.bootID || h.perhapsSinceBoot(n, r) ||
		!h.under(r.Metadata.UID).seen || !v.Now.Before(h.booted.Add(2*time.Minute-time.Second)):
		return unknown
	}
	return no
}

// evicted: the operator deletes only pods of nodes that evict pods.
func (m *Model) evicted(before, after Document, v *View) {
	is, was := read[pod](after), read[pod](before)
	if is != nil && is.Metadata.DeletionTimestamp == nil {
		return // announced
	}
	recently := false
	for _, h := range m.nodes {
		if h.last == nil || h.last.Metadata.Name != was.Spec.NodeName {
			continue
		}
		if h.last.evicts() {
			h.evicts = m.now()
		}
		recently = recently || !h.evicts.IsZero() && m.now().Sub(h.evicts) < 5*time.Minute
	}
	if n := m.lastNamed(was.Spec.NodeName); n != nil && v != nil && was.Metadata.DeletionTimestamp == nil {
		r := m.surelyGuards(n, v, m.now().Add(-slack))
		m.check("spares", r == nil, "pod %s is evicted, and node %s is guarded", was.Metadata.Name, was.Spec.NodeName)
	}
	m.check("evicts", recently, "pod %s is evicted, and its node %s has no taint for that", was.Metadata.Name,
		was.Spec.NodeName)
}

// lastNamed is the last version of the node of a name that was seen. A deleted node and the next one of its name may
// have been created in the same second.
func (m *Model) lastNamed(name string) *node {
	var out *node
	for _, h := range m.nodes {
		if n := h.last; n != nil && n.Metadata.Name == name && (out == nil || !h.gone ||
			m.node(out.Metadata.UID).gone && out.Metadata.CreationTimestamp.Before(n.Metadata.CreationTimestamp)) {
			out = n
		}
	}
	return out
}

// restPods: where a guard has ended, no pod is left that a NoExecute taint evicts, except those that a policy protects,
// and those of DaemonSets, which tolerate everything. The pods of frozen and suspended rules stay.
func (m *Model) restPods(v *View) {
	for _, d := range v.Running {
		p := read[pod](d)
		n := read[node](v.Nodes[p.Spec.NodeName])
		if n == nil || !n.evicts() || p.Metadata.Labels["example.com/protected"] != "" ||
			len(p.Metadata.OwnerReferences) > 0 || m.node(n.Metadata.UID).full ||
			!m.node(n.Metadata.UID).guarded || p.Metadata.CreationTimestamp.Before(n.Metadata.CreationTimestamp) ||
			v.Process != 0 && !m.longUnguarded(n, p, v) ||
			v.Now.Before(n.condition("Ready").LastTransitionTime.Add(time.Minute)) { // not due
			continue
		}
		stays := false
		for r := range v.rules() {
			stays = stays || v.frozen(r) != "" && !n.record(r.Metadata.UID).GuardedSince.IsZero()
		}
		if !stays {
			m.check("evicted", p.Metadata.DeletionTimestamp != nil, "pod %s is still on node %s", p.Metadata.Name,
				n.Metadata.Name)
		}
	}
}

// longUnguarded reports whether the limits of all guards of a node surely passed two minutes ago, under rules that were
// not edited since, the pod is due for as long, and no guard continues because the node is ready again.
func (m *Model) longUnguarded(n *node, p *pod, v *View) bool {
	edited := time.Time{}
	for r := range v.rules() {
		if m.recovers(n, r, v) {
			return false
		}
		if edited = latest(edited, m.rules[r.Metadata.UID].edited); len(r.Spec.Requirements) == 0 {
			continue
		}
		if m.leader != v.Leader { // while the leader reads evidence, it evicts nothing, and it looks again a minute later
			return false
		}
		edited = latest(edited, m.leads)
	}
	ready := n.condition("Ready")
	due := latest(edited, m.node(n.Metadata.UID).guardedAt.Add(v.longestHold()), p.Metadata.CreationTimestamp,
		ready.LastTransitionTime)
	for _, c := range p.Status.Conditions {
		due = latest(due, c.LastTransitionTime) // it may have been bound later
	}
	return n.has(unreachable+":NoExecute") && ready.Status == "Unknown" && v.Now.Sub(due) > 2*time.Minute
}

// recovers reports whether a guard is active because a node is ready again, or may be, and not yet for long enough. The
// guard then continues, also at the limit or later. A frozen rule does not look whether the node is ready. If steady
// cannot tell for how long the node is ready, it is long enough that the leader has known it for two minutes.
func (m *Model) recovers(n *node, r *rule, v *View) bool {
	o, rec := &m.node(n.Metadata.UID).under(r.Metadata.UID).observed, n.record(r.Metadata.UID)
	if rec.GuardedSince.IsZero() || !rec.GuardEnded.IsZero() || v.frozen(r) != "" || o.last != yes && o.last != unknown {
		return false
	}
	known := o.knower == v.Leader && m.now().Sub(o.known) > 2*time.Minute
	return !known && !m.steady(n, r, yes, max(calm, r.Spec.Stabilization.ReadySeconds), v)
}

// longestHold is the longest maxHoldSeconds of a rule.
func (v *View) longestHold() (longest time.Duration) {
	for r := range v.rules() {
		if g := r.Spec.EvictionGuard; g != nil {
			longest = max(longest, time.Duration(cmp.Or(g.MaxHoldSeconds, 1800))*time.Second)
		}
	}
	return longest
}

// Labelled notes an attempt to label a node, which must not be refused. The policy does not look whether annotations
// have room.
func (m *Model) Labelled(d Document, label, value string, policy bool) {
	n := read[node](d)
	if policy && m.node(n.Metadata.UID).full {
		return
	}
	m.check("labelled", n.Metadata.Labels[label] == value, "node %s cannot be labelled %s=%s", n.Metadata.Name, label,
		value)
}

// Overruled notes an attempt to overrule rules by an account that may not.
func (m *Model) Overruled(before, after Document) {
	was, is := read[node](before), read[node](after)
	if was == nil || is == nil {
		return
	}
	for key := range sorted(union(was.Metadata.Annotations, is.Metadata.Annotations)) {
		if key == override || strings.HasPrefix(key, markerPrefix) {
			m.check("overruled", was.Metadata.Annotations[key] == is.Metadata.Annotations[key],
				"annotation %s of node %s was written by an account that may not", key, is.Metadata.Name)
		}
	}
	m.Decisive["overruled"]++
}

// Watches notes a watch of evidence or NodeClaims: a rule must have asked for it, and none asks for NodeClaims.
func (m *Model) Watches(kind, namespace, labels string) {
	asked := false
	for _, h := range m.rules {
		asked = asked || h.watches[kind+":"+namespace+"/"+labels]
	}
	m.check("watched", asked, "%s in namespace %q with labels %q are watched, which no rule asks for", kind, namespace,
		labels)
}
