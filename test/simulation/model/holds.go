// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// answer is what can be said of something.
type answer string

const (
	yes     answer = "yes"
	no      answer = "no"
	unknown answer = "unknown"
)

// frozen says why a rule cannot be judged by what a replica was shown; empty if it can be.
func (v *View) frozen(r *rule) string { return v.frozenBy(r, map[string]bool{}) }

func (v *View) frozenBy(r *rule, seen map[string]bool) string {
	switch {
	case v.Foreign:
		return "the CRD is a foreign one"
	case seen[r.Metadata.Name]:
		return "it requires a rule that requires itself"
	case r.Metadata.DeletionTimestamp != nil:
		return ""
	case r.invalid():
		return "it is invalid"
	case v.circular(r, r.Metadata.Name, 0):
		return "it requires itself in the end"
	case r.Spec.Suspend && !r.Spec.DryRun:
		return "it is suspended"
	}
	seen[r.Metadata.Name] = true
	defer delete(seen, r.Metadata.Name)
	for i := range r.Spec.Requirements {
		q := &r.Spec.Requirements[i]
		if p := q.Pods; p != nil {
			_, listed := v.Pods[p.watch()]
			if !listed && !v.Edited[r.Metadata.UID] && !v.Pruned[r.Metadata.UID] {
				return "its pods have not been read"
			}
		}
		if q.RuleSatisfied == nil {
			continue
		}
		if other := read[rule](v.Rules[q.RuleSatisfied.Name]); other != nil {
			if why := v.frozenBy(other, seen); why != "" {
				return "it requires " + q.RuleSatisfied.Name + ": " + why
			}
		}
	}
	return ""
}

// circular reports whether a rule requires another one in the end.
func (v *View) circular(r *rule, other string, depth int) bool {
	for i := range r.Spec.Requirements {
		if q := r.Spec.Requirements[i].RuleSatisfied; q != nil && (q.Name == other || depth < len(v.Rules) &&
			v.Rules[q.Name] != nil && v.circular(read[rule](v.Rules[q.Name]), other, depth+1)) {
			return true
		}
	}
	return false
}

// holds says whether a rule holds on a node, by what a replica was shown. late: also the time of boots counts.
func (m *Model) holds(n *node, r *rule, v *View, late bool) answer {
	if v.frozen(r) != "" || v.edited(r, 0) {
		return unknown
	}
	answers := map[answer]int{}
	for i := range r.Spec.Conditions {
		c := &r.Spec.Conditions[i]
		if c.DefaultStatus != "" && n.condition(c.Type).Type == "" {
			answers[m.assumed(n, r, c.DefaultStatus == c.RequiredStatus)]++
			continue
		}
		answers[m.condition(n, r, c.Type, c.RequiredStatus, time.Duration(c.MaxAgeSeconds)*time.Second, v.Now)]++
	}
	for i := range r.Spec.Requirements {
		q := &r.Spec.Requirements[i]
		switch {
		case q.Pods != nil:
			answer := m.pods(n, r, v.Pods[q.Pods.watch()], max(1, q.Pods.MinReady), v.Now)
			if h := m.node(n.Metadata.UID); answer == no && v.Process != 0 && r.Spec.rearms() && !h.boot.IsZero() &&
				!h.under(r.Metadata.UID).opened && v.Now.After(h.booted.Add(2*time.Minute)) {
				answer = unknown // once the boot is confirmed, a live list decides
			}
			answers[answer]++
		case q.Resource != nil:
			answers[m.resource(n, r, q.Resource.Name)]++
		case q.RuleSatisfied != nil:
			answers[m.satisfied(n, read[rule](v.Rules[q.RuleSatisfied.Name]), v, late)]++
		}
	}
	decides, other := no, yes
	if r.Spec.ConditionPolicy == "anyOf" {
		decides, other = yes, no
	}
	switch {
	case answers[decides] > 0:
		return decides
	case answers[unknown] > 0:
		return unknown
	}
	return other
}

// edited reports whether a rule, or one that it requires, may be judged by the pods of an earlier version of it.
func (v *View) edited(r *rule, depth int) bool {
	if r == nil || depth > len(v.Rules) || v.Pruned[r.Metadata.UID] {
		return r != nil && v.Pruned[r.Metadata.UID]
	}
	for i := range r.Spec.Requirements {
		q := &r.Spec.Requirements[i]
		if q.Pods != nil && v.Edited[r.Metadata.UID] || q.RuleSatisfied != nil &&
			v.edited(read[rule](v.Rules[q.RuleSatisfied.Name]), depth+1) {
			return true
		}
	}
	return false
}

// condition: what was reported before the node's boot, and not since, does not count until the rule has opened the
// node.
func (m *Model) condition(n *node, r *rule, kind, required string, maxAge time.Duration, now time.Time) answer {
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		if c.Type != kind {
			continue
		}
		if c.Status != required {
			return no
		}
		if maxAge > 0 {
			switch left := c.LastHeartbeatTime.Add(maxAge).Sub(now); {
			case left <= 0:
				return no
			case left < time.Second:
				return unknown
			}
		}
		h := m.node(n.Metadata.UID)
		if r.Spec.rearms() && !h.boot.IsZero() && !h.under(r.Metadata.UID).opened {
			ahead := h.boot.After(h.booted.Add(4 * time.Minute))
			switch {
			case n.Status.NodeInfo.BootID != h.bootID: // as shown: from before the boot
				return unknown
			case !h.under(r.Metadata.UID).seen, ahead &&
				(now.After(h.booted.Add(2*time.Minute)) || !c.LastHeartbeatTime.After(now.Add(6*time.Minute))):
				return unknown
			case c.LastHeartbeatTime.Before(h.boot):
				return no
			case ahead: // such a time counts once the boot is confirmed
				return unknown
			}
			return unknownUntil(!now.Before(h.booted.Add(time.Minute)))
		}
		return yes
	}
	return no
}

// resource: after a boot, it counts once the boot is confirmed.
func (m *Model) resource(n *node, r *rule, name string) answer {
	h := m.node(n.Metadata.UID)
	switch amount := n.Status.Allocatable[name]; {
	case amount == "" || amount == "0":
		return no
	case r.Spec.rearms() && !h.boot.IsZero() && !h.under(r.Metadata.UID).opened:
		return unknown
	}
	return yes
}

func unknownUntil(ok bool) answer {
	if ok {
		return yes
	}
	return unknown
}

// assumed: a condition that is missing has its default status. After a boot this is left open.
func (m *Model) assumed(n *node, r *rule, satisfied bool) answer {
	if m.rebooted(n, r) == yes {
		return unknown
	}
	return map[bool]answer{true: yes, false: no}[satisfied]
}

// pods: those count that are ready, and started since the node booted.
func (m *Model) pods(n *node, r *rule, pods []Document, least int, now time.Time) answer {
	answers := map[answer]int{}
	for _, d := range pods {
		answers[m.pod(n, r, d, now)]++
	}
	switch {
	case answers[yes] >= least:
		return yes
	case answers[yes]+answers[unknown] >= least:
		return unknown
	}
	return no
}

func (m *Model) pod(n *node, r *rule, d Document, now time.Time) answer {
	best := no
	h := m.node(n.Metadata.UID)
	p := read[pod](d)
	if p.Spec.NodeName == n.Metadata.Name && p.Metadata.DeletionTimestamp == nil {
		for _, c := range p.Status.Conditions {
			if c.Type != "Ready" || c.Status != "True" {
				continue
			}
			switch {
			case c.LastTransitionTime.After(now), p.Metadata.CreationTimestamp.Before(n.Metadata.CreationTimestamp):
				best = max(best, unknown)
			case r.Spec.rearms() && !h.boot.IsZero() && !h.under(r.Metadata.UID).opened:
				rec := n.record(r.Metadata.UID)
				if n.Status.NodeInfo.BootID != h.bootID || rec.BootID != h.bootID || !h.under(r.Metadata.UID).seen {
					best = max(best, unknown)
				} else if !p.Status.ContainerStatuses[0].State.Running.StartedAt.Before(h.boot) {
					// A leader that comes later sees the boot by a later heartbeat, and has it confirmed first.
					confirmed := !now.Before(h.booted.Add(11*time.Minute)) && !now.Before(rec.RearmedAt.Add(11*time.Minute))
					best = max(best, unknownUntil(confirmed && n.condition("Ready").Status == "True"))
				} else if now.After(h.booted.Add(2 * time.Minute)) { // once the boot is confirmed, a live list decides
					best = max(best, unknown)
				}
			default:
				return yes
			}
		}
	}
	return best
}

// satisfied: another rule holds on the same node.
func (m *Model) satisfied(n *node, other *rule, v *View, late bool) answer {
	switch {
	case other == nil || !other.Spec.NodeSelector.matches(n.Metadata.Labels):
		return no
	case other.Metadata.DeletionTimestamp != nil || n.override() != "" || !other.Spec.enforced(),
		other.Spec.rearms() && !m.node(n.Metadata.UID).boot.IsZero() && !late:
		return unknown
	case other.Spec.bootstrap() && n.marked(other) && (!other.Spec.rearms() || m.node(n.Metadata.UID).boot.IsZero()):
		return yes
	case other.Spec.bootstrap() && (n.marked(other) || n.letsPass(other)):
		return unknown // it may have let the node pass for good
	}
	holds, windows := m.holds(n, other, v, late), other.Spec.Stabilization
	if v.Process != 0 && (holds == yes && windows.ReadySeconds+windows.MinimumHoldSeconds > 0 ||
		holds == no && windows.UnreadySeconds > 0) {
		return unknown // a window may not be over: only at rest all are
	}
	return holds
}
