// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// replaced is the beginning of the annotations by which rules hand nodes over for replacement; the rule's name follows.
const replaced = "example.com/replace-"

// mostInARow is how many nodes a rule hands over without a node becoming ready.
const mostInARow = 3

// replacement is an entry of a rule's status: the rule is about to hand a node over.
type replacement struct {
	NodeName, NodeUID string
	HandoverTime      time.Time
	Generation        int64
}

// handOver is a replacement that the model has seen being written, or the last one of the same node.
type handOver struct {
	counted
	method string
	claim  string    // the UID of the NodeClaim that was deleted for it
	before []counted // the former ones of the node: to mark it again counts
}

// counted is what the limits count of a replacement.
type counted struct {
	at         time.Time
	generation int64
}

// yields reports whether a NodeClaim is rather deleted for another replacement: this one has had its own, or is older.
func (h handOver) yields(of *handOver) bool {
	if (h.claim == "") != (of.claim == "") {
		return of.claim == ""
	}
	return h.at.Before(of.at)
}

// all are the replacements of the node.
func (h *handOver) all() []counted { return append(slices.Clone(h.before), h.counted) }

// claim is a NodeClaim of Karpenter.
type claim struct {
	Metadata metadata
	Status   struct{ NodeName, ProviderID string }
}

// about reports whether a NodeClaim is about a node: it names the node, or before that the machine, and if the node
// names an owner, it is that one.
func (c *claim) about(n *node) bool {
	for _, o := range n.Metadata.OwnerReferences {
		if o.Kind == "NodeClaim" && o.UID != c.Metadata.UID {
			return false
		}
	}
	return c.Status.NodeName == n.Metadata.Name || c.Status.NodeName == "" && c.Status.ProviderID != "" &&
		c.Status.ProviderID == n.Spec.ProviderID
}

// intends judges a write of a rule's status that says which node is handed over next. It names the version of the rule,
// so that nothing has changed since the replica read it.
func (m *Model) intends(was, is *rule, v *View) {
	h := m.rules[is.Metadata.UID]
	if h == nil {
		return
	}
	if shown := v.rule(is); shown != nil { // the CRD may have been replaced since, so that the rule lacks fields
		status := is.Status
		is = &rule{Metadata: shown.Metadata, Spec: shown.Spec, Status: status}
	}
	before, after := lastOf(was.Status.Replacements.Last), lastOf(is.Status.Replacements.Last)
	m.takesBack(h, before, after, is.Metadata.Generation)
	for uid, r := range sorted(after) {
		if r.begins(before[uid], is.Metadata.Generation) && v != nil {
			m.intended(is, &r, h, v)
		}
	}
}

// lastOf are the last replacements of the nodes, by their UIDs.
func lastOf(all []replacement) map[string]replacement {
	out := map[string]replacement{}
	for _, r := range all {
		out[r.NodeUID] = r
	}
	return out
}

// begins reports whether a replacement is a new one.
func (r *replacement) begins(before replacement, generation int64) bool {
	return r.Generation == generation && r.HandoverTime.After(before.HandoverTime)
}

// takesBack notes the end of an intention that was refused: without a new one, the last one of a node is no longer
// there, or is again the one before.
func (m *Model) takesBack(h *ruleHistory, former, now map[string]replacement, generation int64) {
	for uid, r := range now {
		if of, known := former[uid]; !known || r.begins(of, generation) {
			return
		}
	}
	for uid, r := range former {
		handed := h.handed[uid]
		if of, known := now[uid]; !known && (handed.claim == "" || m.byAnother(h, uid)) {
			delete(h.handed, uid)
		} else if known && of.HandoverTime.Before(r.HandoverTime) {
			if n := len(handed.before); n > 0 && handed.before[n-1].at.Truncate(time.Second).Equal(of.HandoverTime) {
				handed.before = handed.before[:n-1]
			}
			handed.counted = counted{of.HandoverTime, of.Generation}
			h.handed[uid] = handed
		}
	}
}

// byAnother notes that another rule has deleted the NodeClaim of a node, which both intended to hand over at the same
// time: this one takes its intention back. It reports false if there is no such rule.
func (m *Model) byAnother(h *ruleHistory, uid string) bool {
	for _, o := range m.rules {
		if other, handed := o.handed[uid]; handed && o != h && other.method == "NodeClaim" && other.claim == "" {
			other.claim = h.handed[uid].claim
			o.handed[uid] = other
			return true
		}
	}
	return false
}

// rule is a version of a rule of the same generation as it was shown; nil if none was.
func (v *View) rule(r *rule) *rule {
	if v == nil {
		return nil
	}
	shown := read[rule](v.Rules[r.Metadata.Name])
	if shown == nil || shown.Metadata.UID != r.Metadata.UID || shown.Metadata.Generation != r.Metadata.Generation {
		return nil
	}
	return shown
}

func (m *Model) intended(r *rule, of *replacement, h *ruleHistory, v *View) {
	name, t := r.Metadata.Name, &r.Spec.Timeout
	why := v.frozen(r)
	inForce := why == "" || strings.HasSuffix(why, perhapsTheirs)
	m.check("replaces", r.Metadata.DeletionTimestamp == nil && r.Spec.enforced() && t.Action == "Replace" && inForce,
		"rule %s hands node %s over, and is not in force %s", name, of.NodeName, why)
	shown := read[node](v.Nodes[of.NodeName])
	if shown != nil && shown.Metadata.UID != of.NodeUID {
		shown = nil
	}
	if shown != nil && !v.edited(r, 0) {
		m.check("replaces", m.holds(shown, r, v, false) != yes && !v.busy(shown),
			"rule %s hands node %s over, which is ready or runs pods", name, of.NodeName)
		m.check("replaces", t.Replace.Method != "NodeClaim" || !v.terminates(shown),
			"rule %s hands node %s over, whose NodeClaim is being deleted", name, of.NodeName)
		rec := shown.record(r.Metadata.UID)
		m.check("replaces", shown.overdue(r) && rec.Released.IsZero() && !v.staysWith(shown, r),
			"rule %s hands node %s over, which it does not hold, has released, has time left, or must leave alone", name,
			of.NodeName)
	}
	last, known := h.handed[of.NodeUID]
	next := handOver{counted{m.now(), of.Generation}, t.Replace.Method, last.claim, last.before}
	if known && shown != nil && shown.record(r.Metadata.UID).Handed { // else the outcome of the last one is unknown
		next.before = last.all()
	}
	h.handed[of.NodeUID] = next
	hour, row := m.handOvers(h, r)
	m.check("replaces", hour <= max(1, t.Replace.MaxPerHour), "rule %s hands over %d nodes within an hour", name, hour)
	m.check("replaces", row <= mostInARow || m.hasFull(r, v), "rule %s hands over %d nodes, and none became ready", name,
		row)
}

// handOvers counts those within the last hour, and those of a rule's generation since a node became ready.
func (m *Model) handOvers(h *ruleHistory, r *rule) (hour, row int) {
	for _, handed := range h.handed {
		for _, o := range handed.all() {
			if m.within(o.at) {
				hour++
			}
			if o.generation == r.Metadata.Generation && o.at.After(h.ready) {
				row++
			}
		}
	}
	return hour, row
}

// within reports whether a replacement surely was within the last hour.
func (m *Model) within(at time.Time) bool {
	return m.now().Sub(at) < time.Hour-time.Second
}

// marksReplaced judges a write that hands a node over: it was intended, and the node is as it must be.
func (m *Model) marksReplaced(was, is *node, v *View) {
	for key := range is.Metadata.Annotations {
		name, ok := strings.CutPrefix(key, replaced)
		if !ok || was.Metadata.Annotations[key] != "" {
			continue
		}
		var of *rule
		intended := false
		for uid, h := range m.rules {
			if _, handed := h.handed[is.Metadata.UID]; handed && h.last.Metadata.Name == name {
				intended = true
				if was.claim(uid) != "" {
					of = h.last
				}
			}
		}
		node := is.Metadata.Name
		m.check("replaces", intended && of != nil, "rule %s hands node %s over, does not hold it, or did not say so before",
			name, node)
		if of == nil {
			continue
		}
		uid := of.Metadata.UID
		rec, u := was.record(uid), m.node(is.Metadata.UID).under(uid)
		m.check("replaces", !rec.TimedOut.IsZero() && rec.Released.IsZero() && !u.opened && !u.reborn,
			"rule %s hands node %s over, which it has released, or for which there is time left", name, node)
		_, controls := is.Metadata.Labels["node-role.kubernetes.io/control-plane"]
		m.check("replaces", v.override(was) == "" && was.Metadata.Annotations[maintenance] == "" && !controls &&
			was.Metadata.DeletionTimestamp == nil,
			"rule %s hands over node %s of the control plane, or under an override, or in maintenance", name, node)
	}
}

// takes judges a write that deletes a NodeClaim: the replica has read this version of it, and has said before that it
// hands over the node that it is about. A node costs one NodeClaim.
func (m *Model) takes(before, after Document, v *View) {
	was, is := read[claim](before), read[claim](after)
	if was.Metadata.DeletionTimestamp != nil || is != nil && is.Metadata.DeletionTimestamp == nil {
		return
	}
	name := was.Metadata.Name
	m.check("replaces", v.Claims[name] == before, "NodeClaim %s is deleted, and is not as it was read", name)
	var by *ruleHistory
	var last string
	for _, h := range m.rules {
		for uid, of := range h.handed {
			n := m.node(uid).last
			if of.method == "NodeClaim" && n != nil && was.about(n) && (by == nil || by.handed[last].yields(&of)) {
				by, last = h, uid
			}
		}
	}
	m.check("replaces", by != nil, "NodeClaim %s is deleted, and no rule hands over its node", name)
	if by == nil {
		return
	}
	of := by.handed[last]
	m.check("replaces", of.claim == "", "NodeClaim %s is deleted, the second one for one node", name)
	of.claim = was.Metadata.UID
	by.handed[last] = of
}

// claimOf is the NodeClaim by which a node can be handed over; nil if there is none, or it is not clear which it is.
func (v *View) claimOf(n *node) *claim {
	var of []*claim
	for c := range each[claim](v.Claims) {
		if c.about(n) {
			of = append(of, c)
		}
	}
	if len(of) != 1 || of[0].Metadata.DeletionTimestamp != nil {
		return nil
	}
	return of[0]
}

// terminates reports whether all NodeClaims that are about a node are being deleted, as the replica has read them.
func (v *View) terminates(n *node) bool {
	some := false
	for c := range each[claim](v.Claims) {
		if c.about(n) && c.Metadata.DeletionTimestamp == nil {
			return false
		}
		some = some || c.about(n)
	}
	return some
}

// restReplaced: nodes that were released are not marked any more, and where the limits leave room, no node waits.
func (m *Model) restReplaced(r *rule, v *View) {
	h := m.rules[r.Metadata.UID]
	if h == nil || r.Spec.Suspend || v.frozen(r) != "" || m.hasFull(r, v) {
		return
	}
	replaces := r.Spec.Timeout.Action == "Replace"
	for n := range v.nodes() {
		_, handed := h.handed[n.Metadata.UID]
		marked, claims := n.Metadata.Annotations[replaced+r.Metadata.Name] != "", r.Spec.Timeout.Replace.Method == "NodeClaim"
		others := m.node(n.Metadata.UID).marks[replaced+r.Metadata.Name]
		if marked && handed && !others && n.record(r.Metadata.UID).Handed && n.Metadata.DeletionTimestamp == nil {
			m.check("replaces", replaces && !claims && !v.staysWith(n, r), "node %s is still marked for replacement by rule %s",
				n.Metadata.Name, r.Metadata.Name)
		}
		if claims {
			marked = v.claimOf(n) == nil
		}
		if replaces && !marked && n.Metadata.DeletionTimestamp == nil && m.waitsForReplacement(n, r, v) {
			but := n.Metadata.UID
			if n.record(r.Metadata.UID).Handed {
				but = "" // to mark it again counts
			}
			hour, row := m.handedOver(r, but)
			m.check("replaces", hour >= max(1, r.Spec.Timeout.Replace.MaxPerHour) || row >= mostInARow,
				"rule %s does not hand over node %s, and has handed over %d", r.Metadata.Name, n.Metadata.Name, cmp.Or(row, hour))
		}
	}
}

// searchInterval is how late the operator may see that an hour has passed.
const searchInterval = 30 * time.Second

// handedOver counts how often a rule has handed over nodes but one: within the last hour, and since it was edited.
func (m *Model) handedOver(r *rule, but string) (hour, row int) {
	for uid, handed := range m.rules[r.Metadata.UID].handed {
		if uid == but {
			continue
		}
		for _, o := range handed.all() {
			if m.now().Sub(o.at) < time.Hour+searchInterval {
				hour++
			}
			if o.generation == r.Metadata.Generation {
				row++
			}
		}
	}
	return hour, row
}

// overdue: the timeout of the claim has passed, as the rule has it now.
func (n *node) overdue(r *rule) bool {
	rec, start := n.record(r.Metadata.UID), n.Metadata.CreationTimestamp
	if !rec.Since.IsZero() {
		start = rec.Since
	}
	first, _ := r.Spec.timeouts()
	return !rec.TimedOut.IsZero() && !rec.TimedOut.Before(start.Add(first))
}

// staysWith: the rule does not hold the node, or may not hand it over.
func (v *View) staysWith(n *node, r *rule) bool {
	_, controls := n.Metadata.Labels["node-role.kubernetes.io/control-plane"]
	return n.claim(r.Metadata.UID) == "" || v.override(n) != "" || n.Metadata.Annotations[maintenance] != "" || controls
}

// waitsForReplacement: its time is over, it was never released, and nothing speaks against handing it over.
func (m *Model) waitsForReplacement(n *node, r *rule, v *View) bool {
	rec := n.record(r.Metadata.UID)
	first, last := r.Spec.timeouts()
	never := n.overdue(r) && first == last && // else nothing ends if the evidence has appeared meanwhile
		rec.Released.IsZero() && !n.marked(r) && // a marker says that it was ready
		rec.RearmedAt.IsZero() && !rec.Existing && !rec.Counted
	return never && r.Spec.enforced() && !v.staysWith(n, r) && n.has(n.claim(r.Metadata.UID)) && !v.busy(n) &&
		m.holds(n, r, v, true) == no
}
