// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"
	"time"
)

// answer is what can be said of something. Zero: nothing was asked.
type answer int

const (
	no answer = iota + 1
	unknown
	yes
)

// answers counts them.
type answers [yes + 1]int

func (a answer) String() string { return [...]string{"", "no", "unknown", "yes"}[a] }

// sure is the answer to a question that leaves nothing open.
func sure(ok bool) answer {
	if ok {
		return yes
	}
	return no
}

// frozen says why a rule cannot be judged by what a replica was shown; empty if it can be.
func (v *View) frozen(r *rule) string {
	why, known := v.reading().frozen[r]
	if !known {
		why = v.frozenBy(r, map[string]bool{})
		v.known.frozen[r] = why
	}
	return why
}

// suspended reports whether a rule is frozen because it, or a rule that it requires, is suspended.
func (v *View) suspended(r *rule) bool {
	return !r.Spec.DryRun && strings.HasSuffix(v.frozen(r), "it is suspended")
}

func (v *View) frozenBy(r *rule, seen map[string]bool) string {
	switch {
	case v.Foreign:
		return "the CRD is a foreign one"
	case seen[r.Metadata.Name]:
		return "it requires a rule that requires itself"
	case r.Metadata.DeletionTimestamp != nil:
		return ""
	case v.frozenByOthers(r) != "":
		return v.frozenByOthers(r)
	case r.invalid():
		return "it is invalid"
	case v.circular(r, r.Metadata.Name, 0):
		return "it requires itself in the end"
	case r.Spec.Suspend && !r.Spec.DryRun:
		return "it is suspended"
	case v.deadlocked(r):
		return deadlock
	}
	seen[r.Metadata.Name] = true
	defer delete(seen, r.Metadata.Name)
	for i := range r.Spec.Requirements {
		q := &r.Spec.Requirements[i]
		for _, w := range q.needs {
			_, listed := v.Evidence[w.key]
			if !listed && !v.Edited[r.Metadata.UID] && !v.Pruned[r.Metadata.UID] {
				return "its evidence has not been read"
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

// deadlock is why a rule cannot be judged that waits for itself, by its status.
const deadlock = "it waits for a DaemonSet that its taint keeps away"

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
	var found answers
	for i := range r.Spec.Conditions {
		c := &r.Spec.Conditions[i]
		if c.DefaultStatus != "" && n.condition(c.Type).Type == "" {
			found[m.assumed(n, r, c.DefaultStatus == c.RequiredStatus)]++
			continue
		}
		found[m.condition(n, r, c.Type, c.RequiredStatus, time.Duration(c.MaxAgeSeconds)*time.Second, v.Now)]++
	}
	for i := range r.Spec.Requirements {
		found[m.meets(n, r, &r.Spec.Requirements[i], v, late)]++
	}
	decides, other := no, yes
	if r.Spec.ConditionPolicy == "anyOf" {
		decides, other = yes, no
	}
	switch {
	case found[decides] > 0:
		return decides
	case found[unknown] > 0:
		return unknown
	}
	return other
}

// meets says whether a requirement of a rule is satisfied on a node.
func (m *Model) meets(n *node, r *rule, q *requirement, v *View, late bool) answer {
	switch {
	case q.Pods != nil:
		is := m.pods(n, r, q, v)
		if h := m.node(n.Metadata.UID); is == no && v.Process != 0 && r.Spec.rearms() && !h.boot.IsZero() &&
			!h.under(r.Metadata.UID).opened && v.Now.After(h.booted.Add(2*time.Minute)) {
			return unknown // once the boot is confirmed, a live list decides
		}
		return is
	case q.Resource != nil:
		amount := n.Status.Allocatable[q.Resource.Name]
		return m.undated(n, r, amount != "" && amount != "0")
	case q.DaemonSets != nil:
		return m.daemonSets(n, r, q.DaemonSets, v)
	case q.CSIDriver != nil:
		return m.undated(n, r, q.drives(n, v))
	case q.Devices != nil:
		return m.devices(n, r, q, v)
	case q.NoTaint != nil:
		return m.undated(n, r, !n.has(taint{Key: q.NoTaint.Key, Effect: q.NoTaint.Effect}.id()))
	case q.CEL != nil:
		is := expressions[q.CEL.Expression]
		return m.undated(n, r, is != nil && is(n) == yes)
	}
	return m.requires(n, r, read[rule](v.Rules[q.RuleSatisfied.Name]), v, late)
}

// edited reports whether a rule, or one that it requires, may be judged by the pods of an earlier version of it, or was
// frozen because of another controller.
func (v *View) edited(r *rule, depth int) bool {
	if r == nil || depth > len(v.Rules) || v.Pruned[r.Metadata.UID] || v.thawed(r.Metadata.UID) {
		return r != nil && (v.Pruned[r.Metadata.UID] || v.thawed(r.Metadata.UID))
	}
	for i := range r.Spec.Requirements {
		q := &r.Spec.Requirements[i]
		if q.needs != nil && v.Edited[r.Metadata.UID] || q.RuleSatisfied != nil &&
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
		status, sure := c.status(maxAge, now)
		sure = sure && (maxAge == 0 || status == "Unknown" || !m.skewed(n))
		switch {
		case !sure, required == "Unknown" && m.rebooted(n, r) == yes, status != required && c.undecided():
			return unknown
		case status != required:
			return no
		}
		h := m.node(n.Metadata.UID)
		if r.Spec.rearms() && !h.boot.IsZero() && !h.under(r.Metadata.UID).opened {
			return h.reportedSinceBoot(n, r, c, now)
		}
		return yes
	}
	if required == "Unknown" && m.rebooted(n, r) == yes {
		return unknown
	}
	return sure(required == "Unknown")
}

// reportedSinceBoot says whether a condition counts as reported since the node's boot.
func (h *nodeHistory) reportedSinceBoot(n *node, r *rule, c *condition, now time.Time) answer {
	ahead := h.boot.After(h.booted.Add(4 * time.Minute))
	switch {
	case n.Status.NodeInfo.BootID != h.bootID, // as shown: from before the boot
		h.perhapsSinceBoot(n, r):
		return unknown
	case !h.under(r.Metadata.UID).seen, ahead &&
		(now.After(h.booted.Add(2*time.Minute)) || !c.LastHeartbeatTime.After(now.Add(6*time.Minute))),
		c.reported().After(now.Add(4 * time.Minute)):
		return unknown
	case c.reported().Before(h.boot):
		if h.setBack || c.ours() && !now.Before(h.booted.Add(2*time.Minute-time.Second)) {
			return unknown // it may have been reported since, or counts as soon as the boot is confirmed
		}
		return no
	case ahead: // such a time counts once the boot is confirmed
		return unknown
	}
	return unknownUntil(!now.Before(h.booted.Add(time.Minute)))
}

// status is the status that counts: what is stale, or no status, is Unknown.
func (c *condition) status(maxAge time.Duration, now time.Time) (status string, sure bool) {
	status, left := c.Status, c.reported().Add(maxAge).Sub(now)
	if status != "True" && status != "False" {
		status = "Unknown"
	}
	switch {
	case maxAge == 0:
		return status, true
	case left <= 0:
		return "Unknown", true
	}
	return status, left >= time.Second
}

// undated: evidence without a time counts after a boot once the boot is confirmed.
func (m *Model) undated(n *node, r *rule, satisfied bool) answer {
	h := m.node(n.Metadata.UID)
	switch {
	case !satisfied:
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
	return sure(satisfied)
}

// pods: those count that are ready, and started since the node booted.
func (m *Model) pods(n *node, r *rule, q *requirement, v *View) answer {
	var found answers
	for _, d := range v.Evidence[q.needs[0].key] {
		found[m.pod(n, r, q.Pods, read[pod](d), v)]++
	}
	switch least := max(1, q.Pods.MinReady); {
	case found[yes] >= least:
		return yes
	case found[yes]+found[unknown] >= least:
		return unknown
	}
	return no
}

// pod says whether a pod counts.
func (m *Model) pod(n *node, r *rule, q *podsRequirement, p *pod, v *View) answer {
	if p.Spec.NodeName != n.Metadata.Name || p.Metadata.DeletionTimestamp != nil ||
		q.OwnerDaemonSet != "" && !p.ownedBy(q.OwnerDaemonSet) {
		return no
	}
	ready := q.ready(p, v.Now, m.skewed(n))
	if ready == no {
		return no
	}
	h := m.node(n.Metadata.UID)
	switch {
	case ready == unknown, p.Metadata.CreationTimestamp.Before(n.Metadata.CreationTimestamp):
		return unknown
	case r.Spec.rearms() && !h.boot.IsZero() && !h.under(r.Metadata.UID).opened:
		return m.sinceBoot(n, r, p, v)
	}
	return yes
}

// ready says whether a pod is ready, by its condition, its annotation, or either. skewed: a clock is or was wrong.
func (p *podsRequirement) ready(of *pod, now time.Time, skewed bool) answer {
	if p.ReadyWhen != "" && p.ReadyWhen != "PodReady" {
		if value, there := of.Metadata.Annotations[p.ReadyAnnotation.Key]; there && value == p.ReadyAnnotation.Value {
			return yes
		}
		if p.ReadyWhen == "Annotation" {
			return no
		}
	}
	least := 0
	for _, c := range of.Spec.Containers {
		if c.ReadinessProbe == nil {
			least = 10
		}
	}
	if p.MinReadySeconds != nil {
		least = *p.MinReadySeconds
	}
	return of.readyFor(time.Duration(least)*time.Second, now, skewed)
}

// readyFor says whether a pod has been ready for a time. A time in the future says nothing: until it comes, the pod's
// creation may count.
func (p *pod) readyFor(least time.Duration, now time.Time, skewed bool) answer {
	for _, c := range p.Status.Conditions {
		if c.Type != "Ready" || c.Status != "True" {
			continue
		}
		switch left := c.LastTransitionTime.Add(least).Sub(now); {
		case c.LastTransitionTime.After(now), 0 < left && (left < slack || skewed):
			return unknown
		case left > 0:
			return no
		}
		return yes
	}
	return no
}

// sinceBoot says whether a pod that is ready counts after a boot under a rule that re-arms.
func (m *Model) sinceBoot(n *node, r *rule, p *pod, v *View) answer {
	h, rec, now := m.node(n.Metadata.UID), n.record(r.Metadata.UID), v.Now
	found, sure := rec.RearmedAt, rec.BootID == h.bootID
	if v.Rehearses {
		found, sure = h.found, !h.found.IsZero() && m.rules[r.Metadata.UID].edited.Before(h.found)
	}
	switch {
	case n.Status.NodeInfo.BootID != h.bootID || !sure || !h.under(r.Metadata.UID).seen,
		h.perhapsSinceBoot(n, r), len(p.Status.ContainerStatuses) == 0:
		return unknown
	case !p.Status.ContainerStatuses[0].State.Running.StartedAt.Before(h.boot):
		// A leader that comes later sees the boot by a later heartbeat, and has it confirmed first.
		late := !now.Before(h.booted.Add(11*time.Minute)) && !now.Before(found.Add(11*time.Minute))
		ready := n.condition("Ready")
		return unknownUntil(ready.Status == "True" && (late || rec.confirms(&ready, now) && !v.Rehearses &&
			!p.Status.ContainerStatuses[0].State.Running.StartedAt.Before(rec.Former)))
	case h.setBack: // it may have started since
		return unknown
	case !now.Before(h.booted.Add(2*time.Minute - time.Second)): // once the boot is confirmed, a live list decides
		return unknown
	}
	return no
}

// confirms reports whether a boot that a record has is confirmed: kubelet has reported for two minutes since then.
func (r record) confirms(ready *condition, now time.Time) bool {
	from := latest(r.NotBefore, ready.LastTransitionTime)
	return !r.RearmedAt.IsZero() && !now.Before(r.RearmedAt.Add(2*time.Minute)) &&
		!ready.reported().Before(from.Add(2*time.Minute))
}

// satisfied: another rule holds on the same node.
func (m *Model) satisfied(n *node, other *rule, v *View, late bool) answer {
	switch {
	case other == nil || !other.Spec.NodeSelector.matches(n.Metadata.Labels):
		return no
	case other.Metadata.DeletionTimestamp != nil || !other.Spec.enforced(),
		other.Spec.rearms() && !m.node(n.Metadata.UID).boot.IsZero() && !late:
		return unknown
	case other.Spec.bootstrap() && n.marked(other) && (!other.Spec.rearms() || m.node(n.Metadata.UID).boot.IsZero()):
		return yes
	case other.Spec.bootstrap() && (n.inheritable(other) || n.letsPass(other)):
		return unknown // it may have let the node pass for good
	}
	holds, windows := m.holds(n, other, v, late), other.Spec.Stabilization
	seconds := map[answer]int{yes: windows.ReadySeconds, no: windows.UnreadySeconds}[holds]
	switch open := seconds > 0 || holds == yes && windows.MinHoldSeconds > 0; {
	case v.Process == 0 || !open: // at rest, all windows are over
	case v.Leader == 0 || !m.steady(n, other, holds, seconds, v):
		return unknown
	}
	return holds
}
