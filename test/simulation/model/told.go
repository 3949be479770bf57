// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Event is what a process has told about an object.
type Event struct{ Name, Reason, Note string }

// change is what an event tells: its reason, and texts that are in its note.
type change struct {
	reason string
	texts  []string
}

// Told judges the events of a write of a replica that was answered: each change is told.
func (m *Model) Told(kind string, before, after Document, events []Event, v *View) {
	var name string
	var changes []change
	switch {
	case kind == "nodes" && before != nil && after != nil:
		was, is := read[node](before), read[node](after)
		if m.node(is.Metadata.UID).full {
			return
		}
		name, changes = is.Metadata.Name, m.changesOf(was, is, v)
		m.toldOnly(was, is, events)
	case kind == "nodes", kind == "pods" && (read[pod](before).Metadata.DeletionTimestamp != nil ||
		after != nil && read[pod](after).Metadata.DeletionTimestamp == nil):
		return
	case kind == "pods":
		name, changes = read[pod](before).Metadata.Name, []change{{"Evicted", nil}}
	case kind == "nodeclaims":
		m.check("told", slices.ContainsFunc(events, func(e Event) bool { return e.Reason == "HandedOver" }),
			"a NodeClaim is deleted, and no event says that a node is handed over")
		return
	case kind == "nodereadinessrules":
		was := read[rule](before)
		name, changes = was.Metadata.Name, problems(was, read[rule](after))
		if left := leavings(was, after, v); len(left) > 0 {
			changes = append(changes, change{"CleanupIncomplete", left[:1]})
		}
	}
	for _, c := range changes {
		m.check("told", slices.ContainsFunc(events, func(e Event) bool {
			return e.Name == name && e.Reason == c.reason && !slices.ContainsFunc(c.texts, func(text string) bool {
				return !strings.Contains(e.Note, text)
			})
		}), "no event %s on %s says %q: %v", c.reason, name, c.texts, events)
	}
}

// changesOf are the changes of a node that events tell.
//
//nolint:gocyclo // one event after the other
func (m *Model) changesOf(was, is *node, v *View) (out []change) {
	for r := range v.rules() {
		uid, name := r.Metadata.UID, r.Metadata.Name
		b, a := was.record(uid), is.record(uid)
		if v.frozen(r) != "" {
			continue
		}
		add := func(changed bool, reason string, texts ...string) {
			if changed {
				out = append(out, change{reason, append(texts, name)})
			}
		}
		acts := r.Spec.enforced() && r.Metadata.DeletionTimestamp == nil
		had, has := b.claim(), a.claim()
		add(had != "" && was.has(had) && !is.has(had), "TaintRemoved", key(had))
		add(acts && has != "" && !was.has(has) && is.has(has), "TaintAdded", key(has))
		add(acts && had == "" && was.has(has) && is.has(has) && !was.claims()[has], "TaintAdopted", key(has))
		add(acts && !was.marked(r) && is.marked(r) && !inherits(was, is, r), "BootstrapCompleted")
		mark := replaced + name
		add(was.Metadata.Annotations[mark] == "" && is.Metadata.Annotations[mark] != "", "HandedOver")
		if was.several(r.key()) { // the policy has claimed the node in between: the former record counts again
			continue
		}
		add(acts && a.TimedOut.After(b.TimedOut), "ReadinessTimedOut", map[bool]string{true: "is released",
			false: "stays held"}[r.Spec.Timeout.Action == "Release"])
		add(acts && b.BootID != "" && a.BootID != b.BootID && !a.RearmedAt.IsZero(), "NodeRearmed")
		ends := b.GuardEnded.IsZero() && !a.GuardEnded.IsZero()
		add(ends, "GuardEnded")
		add(!ends && b.GuardedSince.IsZero() && !a.GuardedSince.IsZero(), "PodsGuarded")
		add(!b.GuardedSince.IsZero() && a.GuardedSince.IsZero(), "PodsUnguarded")
	}
	return out
}

// key is the key of a taint that is given as key:effect.
func key(id string) string {
	key, _, _ := strings.Cut(id, ":")
	return key
}

// toldOnly: what events tell of taints, timeouts and reboots has happened in this write.
func (m *Model) toldOnly(was, is *node, events []Event) {
	happened := map[string]bool{
		"TaintAdded":   slices.ContainsFunc(is.Spec.Taints, func(t taint) bool { return !was.has(t.id()) }),
		"TaintRemoved": slices.ContainsFunc(was.Spec.Taints, func(t taint) bool { return !is.has(t.id()) }),
	}
	for of := range is.Metadata.Annotations {
		uid, ok := strings.CutPrefix(of, recordPrefix)
		marker := strings.HasPrefix(of, markerPrefix) && was.Metadata.Annotations[of] == ""
		happened["BootstrapCompleted"] = happened["BootstrapCompleted"] || marker
		if b, a := was.record(uid), is.record(uid); ok {
			// A node that reboots in the second of its timeout may be out of time again.
			again := !a.TimedOut.IsZero() && a.TimedOut.Equal(b.TimedOut) && a.BootID != b.BootID
			happened["ReadinessTimedOut"] = happened["ReadinessTimedOut"] || a.TimedOut.After(b.TimedOut) || again
			happened["NodeRearmed"] = happened["NodeRearmed"] || a.BootID != b.BootID
			happened["TaintAdopted"] = happened["TaintAdopted"] || a.Taint != b.Taint
		}
	}
	for _, e := range events {
		switch e.Reason {
		case "TaintAdded", "TaintRemoved", "BootstrapCompleted", "ReadinessTimedOut", "NodeRearmed", "TaintAdopted":
			m.check("told", happened[e.Reason], "event %s on node %s tells what this write has not done: %s", e.Reason,
				is.Metadata.Name, e.Note)
		}
	}
}

// problems are the conditions of a rule that report a new problem.
func problems(was, is *rule) (out []change) {
	if is == nil {
		return nil
	}
	for _, c := range is.Status.Conditions {
		bad := map[string]string{"Ready": "False", "Conflicted": "True", "BudgetExhausted": "True", "NodesReady": "False",
			"Guarding": "False", "Publishing": "False", "Replacing": "False", "Served": "False"}[c.Type]
		before := was.says(c.Type)
		if c.Status != bad || before.Status == c.Status && before.Reason == c.Reason {
			continue
		}
		switch c.Reason {
		case "DryRun", "Suspended", "NodesNotReady", "NotLookedAt", "Deleting":
		default:
			out = append(out, change{c.Reason, []string{c.Message}})
		}
	}
	return out
}

// leavings are the nodes that have a record of a deleted rule when its finalizer is removed, as the replica saw them.
func leavings(was *rule, after Document, v *View) (out []string) {
	if was.Metadata.DeletionTimestamp == nil || after != nil || v == nil {
		return nil
	}
	for n := range v.nodes() {
		if n.Metadata.Annotations[was.key()] != "" {
			out = append(out, n.Metadata.Name)
		}
	}
	return out
}

// reached: while limits keep nodes from being held, the condition BudgetExhausted is True. It says which limit is
// reached, and in which domain, and names five of the nodes.
func (m *Model) reached(r *rule, open []*node, claimed, all int, in *uses, v *View) {
	c := r.says("BudgetExhausted")
	unmarked := m.unmarked(r, &c, v)
	if len(open) == 0 {
		m.check("reached", c.Status == "False" || r.Status.Nodes.Exempt > 0 || unmarked,
			"no node is exempt under rule %s, and its limit is exhausted: %s", r.Metadata.Name, c.Message)
		return
	}
	unknown, most := m.unknownUses(r, open, in, v)
	for _, n := range open {
		if m.node(n.Metadata.UID).full { // it may be held without a record
			continue
		}
		named := false
		for i, l := range r.Spec.limits() {
			full := l.full(n, r, claimed, all, in, m.now()) || l.full(n, r, claimed+unknown, all, most, m.now())
			named = named || full && l.named(i, n, r, c.Message)
		}
		listed := len(open) > 5 || r.Status.Nodes.Exempt > 5 || strings.Contains(c.Message, n.Metadata.Name)
		m.check("reached", c.Status == "True" && named && listed,
			"the limits of rule %s leave no room for node %s, and its condition is %s: %s", r.Metadata.Name, n.Metadata.Name,
			c.Status, c.Message)
	}
}

// unknownUses returns how many other nodes may use a place: open ones, since the outcome of a write is not known for a
// minute, and deleted ones. It also returns the uses with those of the open ones.
func (m *Model) unknownUses(r *rule, open []*node, in *uses, v *View) (n int, most *uses) {
	n, most = m.vacated(r, v), &uses{maps.Clone(in.taken), maps.Clone(in.sure), in.all}
	for _, o := range open {
		if m.now().Sub(m.node(o.Metadata.UID).under(r.Metadata.UID).failed) < time.Minute {
			most.take(o.labelled(), true)
			n++
		}
	}
	return n, most
}

// unmarked reports whether the limits keep the condition that a rule publishes from being False on a held node. Then
// the condition BudgetExhausted says so, as far as the time of a rate is not only to be written.
func (m *Model) unmarked(r *rule, exhausted *said, v *View) (some bool) {
	t := r.Spec.Publish.ConditionType
	for n := range v.nodes() {
		c, stays := n.condition(t), v.Refused[n.Metadata.Name] // the claim and the condition stay as they were
		if t == "" || !stays && (n.claim(r.Metadata.UID) == "" || c.Reason != reasonPrefix+"OverBudget") {
			continue
		}
		some = true
		if n.record(r.Metadata.UID).Published != t || v.override(n) != "" || m.node(n.Metadata.UID).full || r.Spec.rated() ||
			n.Metadata.DeletionTimestamp != nil || stays { // the limit does not count it
			continue
		}
		m.check("reached", exhausted.Status == "True" && strings.Contains(exhausted.Message, "condition "+t+" is Unknown"),
			"the limits of rule %s keep condition %s of node %s from being False: %s", r.Metadata.Name, t, n.Metadata.Name,
			exhausted.Message)
	}
	return some
}

// named reports whether a message names a limit, and the domain of a node, or when a rate allows the next node.
func (l *limit) named(index int, n *node, r *rule, message string) bool {
	if r.Spec.MaxUnavailable != nil {
		return strings.Contains(message, "maxUnavailable ("+strings.Trim(string(l.Max), `"`)+")")
	}
	for part := range strings.SplitSeq(message, "; ") {
		_, text, ok := strings.Cut(part, fmt.Sprintf("limits[%d] (", index))
		if !ok {
			continue
		}
		_, domain, _ := strings.Cut(n.labelled().of(l.Per), "=")
		return (l.Per == "" || strings.Contains(text, fmt.Sprintf("%q", domain))) &&
			(l.WithinSeconds == 0 || strings.Contains(text, "next node at 20"))
	}
	return false
}

// rehearsed: a rule in dry-run names the nodes that it would taint, also after a reboot. Which nodes are existing nodes
// is decided when a process first sees the dry-run, so where that matters, only what it would not do is judged.
func (m *Model) rehearsed(r *rule, v *View) {
	if !r.Spec.DryRun || v.frozen(r) != "" || r.Spec.Taint.Key == "" {
		return
	}
	as, by := *r, *v
	as.Spec.DryRun, as.Spec.Suspend, by.Rehearses = false, false, true
	spares := r.Spec.limited() || r.Spec.ExistingNodes != "" && r.Spec.ExistingNodes != "All"
	for n := range v.nodes() {
		if !r.Spec.NodeSelector.matches(n.Metadata.Labels) ||
			!m.node(n.Metadata.UID).under(r.Metadata.UID).passed.IsZero() {
			continue
		}
		named := slices.Contains(r.Status.DryRunResults.NodesToTaint, n.Metadata.Name)
		switch want := m.wants(n, &as, &by); {
		case want == unknown, want == yes && (spares || n.has(r.Spec.Taint.id())):
		default:
			m.check("rehearsed", named == (want == yes), "rule %s, in dry-run, would taint node %s: %s, and its status says: "+
				"%t", r.Metadata.Name, n.Metadata.Name, want, named)
		}
	}
}

// calm is for how long a node is ready before its guard ends.
const calm = 10

// calms: where a rule has held for readySeconds, and at least for ten seconds, and the node controller evicts nothing,
// the guard of the rule has ended.
func (m *Model) calms(n *node, r *rule, v *View) {
	if r.Spec.EvictionGuard == nil || !r.Spec.enforced() || v.frozen(r) != "" || n.Metadata.DeletionTimestamp != nil ||
		n.has(unreachable+":NoExecute") || n.has("node.kubernetes.io/not-ready:NoExecute") ||
		v.Now.Sub(n.Metadata.CreationTimestamp) < time.Minute || m.node(n.Metadata.UID).full ||
		m.holds(n, r, v, true) != yes || !m.steady(n, r, yes, max(calm, r.Spec.Stabilization.ReadySeconds), v) {
		return
	}
	m.check("unguards", n.record(r.Metadata.UID).GuardedSince.IsZero(), "rule %s guards the pods of node %s, which is "+
		"ready", r.Metadata.Name, n.Metadata.Name)
}
