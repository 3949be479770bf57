// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"
)

// slack is what the whole seconds of objects may cost.
const slack = time.Second

// observed is what was seen of a rule's verdict on a node, whether or not a replica was told of it. It begins again
// when the rule is edited, when the node stops to match it, and when the evidence cannot be read.
type observed struct {
	generation      int64
	from            time.Time
	last            answer
	yes, no, unsure time.Time // when the verdict was last like that
	lost            time.Time // since when an eviction guard is active at the earliest
	known           time.Time // a quiet moment since which the verdict is the same
	knower          int       // the process that led then, and knew it
	turned          int       // the process that knew the opposite until the verdict turned; 0: it may have missed a turn
}

// At is the present state of the cluster, for Observe, Quiet and Rest. evidence is by kind.
func (m *Model) At(nodes, rules, claims []Document, evidence map[string][]Document) *View {
	v := &View{Process: -1, Now: m.now(), Nodes: named(nodes), Rules: named(rules), Claims: named(claims),
		Running: evidence["pods"], Sets: evidence["daemonsets"], Evidence: map[string][]Document{}, beside: &m.beside}
	if others, there := evidence["otherrules"]; there {
		v.Others = &Others{Rules: named(others)}
	}
	for r := range v.rules() {
		for i := range r.Spec.Requirements {
			for _, w := range r.Spec.Requirements[i].needs {
				if v.Evidence[w.key] != nil {
					continue
				}
				v.Evidence[w.key] = slices.DeleteFunc(slices.Clone(evidence[w.kind]), func(d Document) bool {
					return w.kind == "pods" && !w.labels.matches(read[pod](d).Metadata.Labels)
				})
			}
		}
	}
	return v
}

// Observe notes the verdict of each rule on each node. readable is whether the operator can know it.
func (m *Model) Observe(v *View, readable bool) {
	m.vacates(v)
	m.besides(v)
	if !slices.Equal(m.sets, v.Sets) {
		m.sets, m.setsAt = v.Sets, m.now()
	}
	for r := range v.rules() {
		for n := range v.nodes() {
			u := m.node(n.Metadata.UID).under(r.Metadata.UID)
			if v.override(n) != "" {
				u.overridden = v.Now
			}
			if u.claimed.IsZero() && n.claim(r.Metadata.UID) != "" {
				u.claimed = v.Now.Truncate(time.Second) // by admission, whose records have whole seconds
				u.claimedAt = u.claimed
			}
			switch matches := r.Spec.NodeSelector.matches(n.Metadata.Labels); {
			case !readable || !matches || m.rules[r.Metadata.UID] == nil:
				u.observed, u.unmatched = observed{}, u.unmatched || !matches
			default:
				m.observe(n, r, u, v)
				m.uses(v.Rules[r.Metadata.Name], r, v)
			}
		}
	}
}

func (m *Model) observe(n *node, r *rule, u *underRule, v *View) {
	o := &u.observed
	if o.generation != r.Metadata.Generation {
		u.unheld = latest(u.unheld, o.yes, o.unsure)
		*o = observed{generation: r.Metadata.Generation, from: v.Now, lost: n.Metadata.CreationTimestamp}
	}
	is := m.holds(n, r, v, true)
	if is != o.last {
		o.turned, o.knower, o.last = o.knower, 0, is
	}
	switch is {
	case yes:
		o.yes = v.Now
		if n.record(r.Metadata.UID).GuardedSince.IsZero() {
			o.lost = time.Time{}
		}
	case no:
		o.no = v.Now
		if o.lost.IsZero() {
			if o.lost = v.Now; r.ages() && !o.yes.IsZero() { // what grows old may have done so before
				o.lost = o.yes
			}
		}
	default:
		o.unsure, o.knower, o.turned = v.Now, 0, 0
	}
}

// ages reports whether a verdict of the rule depends on the time.
func (r *rule) ages() bool {
	for i := range r.Spec.Conditions {
		if r.Spec.Conditions[i].MaxAgeSeconds > 0 {
			return true
		}
	}
	return r.Spec.rearms() || slices.ContainsFunc(r.Spec.Requirements, func(q requirement) bool {
		return q.Pods != nil || q.DaemonSets != nil || q.RuleSatisfied != nil
	})
}

// know notes what the leader knows at a quiet moment.
func (m *Model) know(v *View) {
	if m.leader != v.Leader {
		m.leader, m.leads = v.Leader, m.now()
	}
	for r := range v.rules() {
		for n := range v.nodes() {
			o := &m.node(n.Metadata.UID).under(r.Metadata.UID).observed
			if o.knower != v.Leader && o.generation == r.Metadata.Generation {
				o.known, o.knower = m.now(), v.Leader
			}
		}
	}
}

// steady reports whether a verdict has been the same for a time, so that a window is surely over. At rest all are.
func (m *Model) steady(n *node, r *rule, is answer, seconds int, v *View) bool {
	switch {
	case is == yes && r.holdsYoung(n, v.Now):
		return false
	case v.Process == 0 || seconds == 0:
		return true
	}
	o := &m.node(n.Metadata.UID).under(r.Metadata.UID).observed
	if o.generation != r.Metadata.Generation || m.skewed(n) || m.rebooted(n, r) == yes {
		return false
	}
	since, now := latest(o.from, o.unsure, map[answer]time.Time{yes: o.no, no: o.yes}[is]), v.Now
	if !r.timed(n, is) || !v.Started.After(since) { // the leader may have seen the opposite: it counts from the turn
		if o.knower != v.Leader {
			return false
		}
		since, now = o.known, m.now()
	}
	since = latest(since, r.turned(n, is)) // a window begins again when what was reported changes
	return now.Sub(since) >= time.Duration(seconds)*time.Second+slack
}

// turned is since when the conditions of a rule say what they say, as far as they decide: it holds since the last of
// them holds, and does not hold since the first of them does not. With anyOf it is the other way round.
func (r *rule) turned(n *node, is answer) time.Time {
	var deciding, all []time.Time
	ages := false
	for i := range r.Spec.Conditions {
		q := &r.Spec.Conditions[i]
		c := n.condition(q.Type)
		if all = append(all, c.LastTransitionTime); (c.counts() == q.RequiredStatus) == (is == yes) {
			deciding = append(deciding, c.LastTransitionTime)
		}
		ages = ages || q.MaxAgeSeconds > 0
	}
	switch {
	case len(all) == 0 || !ages && len(deciding) == 0:
		return time.Time{}
	case ages:
		return latest(all...)
	case (is == yes) == (r.Spec.ConditionPolicy == "anyOf"):
		return slices.MinFunc(deciding, time.Time.Compare)
	}
	return latest(deciding...)
}

// Odd notes that a reporter writes a time of long ago, or far ahead.
func (m *Model) Odd(uid string, odd bool) { m.node(uid).odd = m.node(uid).odd || odd }

// skewed reports whether times that were reported of a node may be wrong.
func (m *Model) skewed(n *node) bool { return m.Skewed(n.Metadata.Name) || m.node(n.Metadata.UID).odd }

// holdsYoung reports whether a node may be younger than a rule's minHoldSeconds.
func (r *rule) holdsYoung(n *node, now time.Time) bool {
	least := time.Duration(r.Spec.Stabilization.MinHoldSeconds) * time.Second
	return least > 0 && now.Sub(n.Metadata.CreationTimestamp) < least+slack
}

// timeouts are after what time the first timeout of a rule may act, and the last one does.
func (s *spec) timeouts() (first, last time.Duration) {
	first, last = time.Duration(s.Timeout.Seconds)*time.Second, time.Duration(s.Timeout.Seconds)*time.Second
	if appear := time.Duration(s.Timeout.AppearSeconds) * time.Second; appear > 0 && appear < first {
		first = appear
	}
	return first, last
}

// timed reports whether all evidence for a verdict has times of its own, so that a restart does not lengthen a window.
// Pods and conditions that are missing have none, and of conditions that may be stale the time is not all.
func (r *rule) timed(n *node, is answer) bool {
	for i := range r.Spec.Conditions {
		if r.Spec.Conditions[i].MaxAgeSeconds > 0 || n.condition(r.Spec.Conditions[i].Type).Type == "" {
			return false
		}
	}
	return !slices.ContainsFunc(r.Spec.Requirements, func(q requirement) bool {
		return q.Pods == nil || is == no || q.Pods.ReadyWhen != "" && q.Pods.ReadyWhen != "PodReady"
	})
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, func(a, b time.Time) int { return a.Compare(b) })
}

// window: a claim does not come or go before the verdict was the same for the time of a window. was is the verdict
// before. Nothing is said where the replica was shown another version of the conditions than there was. A wrong clock
// of the node only counts for a process that has not seen the verdict before.
func (m *Model) window(was, shown *node, r *rule, v *View, seconds int, before answer) {
	h := m.node(shown.Metadata.UID)
	o := &h.under(r.Metadata.UID).observed
	last := map[answer]time.Time{yes: o.yes, no: o.no}[before]
	if seconds == 0 || last.IsZero() || o.generation != r.Metadata.Generation || len(r.Spec.Requirements) > 0 ||
		v.edited(r, 0) || m.skewed(shown) && o.turned != v.Process ||
		r.Spec.rearms() && !h.boot.IsZero() || !slices.Equal(was.Status.Conditions, shown.Status.Conditions) {
		return
	}
	if o.turned != v.Process && before == yes && shown.record(r.Metadata.UID).Released.IsZero() &&
		r.turned(shown, no).Equal(r.Metadata.CreationTimestamp) {
		return // in whole seconds, the evidence may have been missing when the rule was created
	}
	after := m.now().Sub(last)
	m.check("windows", after >= time.Duration(seconds)*time.Second-slack,
		"rule %s changes its claim on node %s %s after its verdict was %s, and the window has %d seconds", r.Metadata.Name,
		shown.Metadata.Name, after, before, seconds)
}

// young: a new node is held for minHoldSeconds from its creation.
func (m *Model) young(shown *node, r *rule, v *View) {
	u := m.node(shown.Metadata.UID).under(r.Metadata.UID)
	if least := r.Spec.Stabilization.MinHoldSeconds; least > 0 && !u.opened && !u.perhaps && !u.served &&
		m.existing(shown, r) == no && len(m.rules[r.Metadata.UID].inForce) == 1 &&
		shown.record(r.Metadata.UID).Released.IsZero() {
		m.check("windows", v.Now.Sub(shown.Metadata.CreationTimestamp) >= time.Duration(least)*time.Second-slack,
			"rule %s releases node %s, which is younger than %d seconds", r.Metadata.Name, shown.Metadata.Name, least)
	}
}

// passes says whether a timeout has let a node pass that the rule does not hold any more for that.
func (m *Model) passes(n *node, r *rule, v *View) answer {
	h, t := m.node(n.Metadata.UID), &r.Spec.Timeout
	u := h.under(r.Metadata.UID)
	rh := m.rules[r.Metadata.UID]
	// A write of the status while the CRD is a foreign one loses fields of the rule; its generation stays.
	edited := !rh.edited.IsZero() && !u.claimed.After(rh.edited) || rh.last.Spec.Timeout != r.Spec.Timeout
	switch {
	case edited && n.letsPass(r), !u.passed.IsZero() && t.Seconds == 0,
		u.passed.IsZero() && len(rh.inForce) != 1 && n.record(r.Metadata.UID).Passed:
		return unknown
	case t.Seconds == 0 || t.Action != "Release" && u.passed.IsZero():
		return no
	case v.Rehearses: // a rule in dry-run claims nothing, so that no timeout begins
		return no
	}
	changed := latest(u.observed.yes, u.observed.unsure, u.unheld)
	first, last := r.Spec.timeouts()
	switch start := u.claimed; {
	case r.Spec.rearms() && !h.boot.IsZero(), edited, u.unmatched, !u.overridden.IsZero():
		return unknown
	case !u.passed.IsZero():
		return unknownUntil(!changed.After(u.passed))
	case start.IsZero() || v.Now.Before(start.Add(first)):
		return no
	}
	return unknownUntil(!v.Now.Before(u.claimed.Add(last+slack)) && !changed.After(u.claimedAt))
}

// surelyGuards returns a rule of which the eviction guard is surely active on a node; nil, if there is none.
func (m *Model) surelyGuards(n *node, v *View, since time.Time) *rule {
	h := m.node(n.Metadata.UID)
	if v.override(n) != "" || n.Metadata.DeletionTimestamp != nil || !h.boot.IsZero() ||
		slices.ContainsFunc(n.Spec.Taints, func(t taint) bool { return t.Effect == "NoExecute" && !v.guardable(&t) }) {
		return nil
	}
	for r := range v.rules() {
		u, s := h.under(r.Metadata.UID), &r.Spec
		o := &u.observed
		if v.suspended(r) && m.stillGuards(n, r) {
			return r
		}
		switch {
		case s.EvictionGuard == nil || !s.enforced() || r.Metadata.DeletionTimestamp != nil || v.frozen(r) != "",
			!s.NodeSelector.matches(n.Metadata.Labels), s.bootstrap(), len(s.Requirements) > 0, s.ConditionPolicy == "anyOf",
			(!u.opened || m.roomless(n, r)) && !n.has(unreachable+":NoExecute"),
			o.generation != r.Metadata.Generation || m.holds(n, r, v, true) != no || o.lost.IsZero(),
			latest(o.from, o.yes, o.unsure, u.overridden).After(since), m.skewed(n):
			continue
		}
		hold := time.Duration(s.EvictionGuard.MaxHoldSeconds) * time.Second
		if m.now().Before(o.lost.Add(hold - slack)) {
			return r
		}
	}
	return nil
}

// stillGuards reports whether a suspended rule's guard, which was active, surely is, also on a node that the rule does
// not select any more.
func (m *Model) stillGuards(n *node, r *rule) bool {
	g := n.record(r.Metadata.UID)
	if r.Spec.EvictionGuard == nil || !g.GuardEnded.IsZero() || g.GuardedSince.IsZero() {
		return false
	}
	hold := time.Duration(r.Spec.EvictionGuard.MaxHoldSeconds) * time.Second
	return m.now().Before(g.GuardedSince.Add(hold - slack))
}

// roomless reports whether a node has the taint of a rule, and no room for a record that says that it was in service.
// It looks like a new node, which the rule does not guard.
func (m *Model) roomless(n *node, r *rule) bool {
	rec := n.record(r.Metadata.UID)
	return m.node(n.Metadata.UID).full && n.has(r.Spec.Taint.id()) && rec.Released.IsZero() && rec.GuardedSince.IsZero()
}

// guardable reports whether a NoExecute taint evicts because a node is not ready: it is the node controller's, or a
// rule's.
func (v *View) guardable(t *taint) bool {
	for r := range v.rules() {
		if r.Spec.Taint.id() == t.id() && r.Spec.enforced() && r.Metadata.DeletionTimestamp == nil && v.frozen(r) == "" {
			return true
		}
	}
	return t.Key == unreachable
}

// Evicting judges an eviction by the node controller, which was refused or not. All replicas know the present state.
func (m *Model) Evicting(before, after Document, v *View) {
	was, is := read[pod](before), read[pod](after)
	n := read[node](v.Nodes[was.Spec.NodeName])
	if n == nil || was.Metadata.DeletionTimestamp != nil {
		return
	}
	if r := m.surelyGuards(n, v, v.Now); r != nil {
		m.check("denies", is != nil && is.Metadata.DeletionTimestamp == nil,
			"pod %s of node %s is evicted, which rule %s guards", was.Metadata.Name, n.Metadata.Name, r.Metadata.Name)
	}
}

// Deleting judges a request to delete a pod by another client than those whose evictions a guard may deny.
func (m *Model) Deleting(d Document, allowed bool, v *View) {
	p := read[pod](d)
	if n := read[node](v.Nodes[p.Spec.NodeName]); !allowed || n != nil && p.Metadata.DeletionTimestamp == nil &&
		m.surelyGuards(n, v, v.Now) != nil {
		m.check("frees", allowed, "the deletion of pod %s is denied, which is no eviction", p.Metadata.Name)
	}
}

// Bound judges whether a pod without tolerations was let onto a node. All replicas know the present state.
func (m *Model) Bound(name string, bound bool, v *View) {
	n := read[node](v.Nodes[name])
	denies, perhaps := false, false
	for r := range v.rules() {
		id, frozen := r.Spec.Taint.id(), v.frozen(r)
		switch {
		case r.Spec.PodAdmission != "Deny", !n.has(id), r.Spec.DryRun, r.Metadata.DeletionTimestamp != nil:
		case frozen == "":
			denies = denies || r.Spec.NodeSelector.matches(n.Metadata.Labels)
		case v.suspended(r) && n.claim(r.Metadata.UID) == id:
			denies = true // it goes on to hold a node that it does not select any more
		default:
			perhaps = true
		}
	}
	if denies || !perhaps {
		m.check("binds", bound != denies, "a pod is let onto node %s: %t, and a rule refuses it: %t", name, bound, denies)
	}
}
