// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"slices"
	"strings"
)

// publishes: a write changes only conditions that rules publish, and not those of others; those of a frozen rule stay,
// unless it is in dry-run; no more than maxUnavailable are False.
func (m *Model) publishes(was, is *node, v *View) {
	for _, t := range changedConditions(was, is) {
		before, after := was.condition(t), is.condition(t)
		by := m.publishers(t)
		m.check("published", len(by) > 0 && (before.Type == "" || before.ours()) && (after.Type == "" || after.ours()),
			"condition %s of node %s is changed, which is not the operator's", t, is.Metadata.Name)
		h := m.node(is.Metadata.UID)
		if after.Status != "False" {
			delete(h.marker, t)
		}
		if len(by) != 1 || v.Rules[by[0].Metadata.Name] == nil {
			continue
		}
		r := read[rule](v.Rules[by[0].Metadata.Name])
		if why := v.frozen(r); r.Metadata.UID == by[0].Metadata.UID && !v.edited(r, 0) {
			m.check("published", why == "" || r.Spec.DryRun && after.Type == "" ||
				strings.HasSuffix(why, "it is suspended") && after.Status == "Unknown",
				"condition %s of node %s becomes %q although %s", t, is.Metadata.Name, after.Status, why)
		}
		if after.Status == "False" && before.Status != "False" {
			h.marker[t] = v.Process
			if h.markedAt == nil {
				h.markedAt = map[string]domains{}
			}
			h.markedAt[t] = is.domains(r)
			m.marks(r, t, is, v)
		}
	}
}

// marks: a condition that becomes False is within maxUnavailable, by what the replica was shown and has written.
func (m *Model) marks(r *rule, t string, is *node, v *View) {
	if !r.Spec.limited() || len(m.rules[r.Metadata.UID].inForce) > 1 || v.share(r) || v.thawed(r.Metadata.UID) {
		return
	}
	marked, all, in := 0, 0, newUses()
	for n := range v.nodes() {
		if c := n.condition(t); m.node(n.Metadata.UID).marker[t] == v.Process || c.ours() && c.Status == "False" &&
			m.node(n.Metadata.UID).marker[t] != 0 {
			marked++
			h := m.node(n.Metadata.UID) // one that was moved since may count in another domain
			if at, known := h.markedAt[t]; known && at == n.labelled() && at == n.domains(r) {
				in.take(at, true)
			}
		}
		if r.Spec.NodeSelector.matches(n.Metadata.Labels) {
			all++
			in.count(n)
		}
	}
	m.rate(r, v.Now, "marks")
	for _, l := range r.Spec.limits() {
		switch d := is.domains(r).of(l.Per); {
		case l.WithinSeconds > 0:
		case l.MaxDomains != nil:
			m.check("marked", in.open(l.Per) <= *l.MaxDomains, "rule %s makes %s False in %d domains of %s", r.Metadata.Name, t,
				in.open(l.Per), l.Per)
		case l.Per != "":
			m.check("marked", in.taken[d] <= allowed(l.Max, in.all[d]), "rule %s makes %s False on %d of %d nodes of %s",
				r.Metadata.Name, t, in.taken[d], in.all[d], d)
		default:
			m.check("marked", marked <= allowed(l.Max, all), "rule %s makes %s False on %d of %d nodes",
				r.Metadata.Name, t, marked, all)
		}
	}
}

// Reported notes that another client than the operator has written a condition.
func (m *Model) Reported(uid, t string) { delete(m.node(uid).marker, t) }

func changedConditions(a, b *node) []string {
	var out []string
	for _, n := range []*node{a, b} {
		for _, c := range n.Status.Conditions {
			if a.condition(c.Type) != b.condition(c.Type) && !slices.Contains(out, c.Type) {
				out = append(out, c.Type)
			}
		}
	}
	return out
}

// publishers are the rules that ever published a type, as they were last written.
func (m *Model) publishers(t string) []*rule {
	var out []*rule
	for _, h := range m.rules {
		if h.types[t] {
			out = append(out, h.last)
		}
	}
	return out
}

// published are the types that any rule ever published.
func (m *Model) published() map[string]bool {
	types := map[string]bool{}
	for _, h := range m.rules {
		maps.Copy(types, h.types)
	}
	return types
}

// restPublished: a published condition says what the rule's verdict is, a record names it, and none is left behind.
func (m *Model) restPublished(n *node, v *View) {
	if m.node(n.Metadata.UID).tampered {
		return // a record named it
	}
	named := map[string]bool{}
	for key := range n.Metadata.Annotations {
		if uid, ok := strings.CutPrefix(key, recordPrefix); ok {
			named[n.record(uid).Published] = true
		}
	}
	for t := range sorted(m.published()) {
		c := n.condition(t)
		if c.Type != "" && !c.ours() {
			continue
		}
		m.check("published", c.Type == "" || named[t] || m.node(n.Metadata.UID).filled,
			"no record of node %s names its condition %s", n.Metadata.Name, t)
		by, open := []*rule{}, false
		for r := range v.rules() {
			if !m.rules[r.Metadata.UID].types[t] {
				continue
			}
			publishes := r.publishes(t, n)
			if publishes {
				by = append(by, r)
			}
			why := v.frozen(r)
			open = open || v.frozenByOthers(r) != "" || why != "" && !r.Spec.DryRun && (!publishes || why != "it is suspended")
		}
		if !open {
			m.publishedBy(n, &c, t, by, v)
		}
	}
}

// publishes reports whether a rule publishes a condition on a node, unless it is suspended or frozen.
func (r *rule) publishes(t string, n *node) bool {
	return r.Spec.Publish.ConditionType == t && r.Spec.NodeSelector.matches(n.Metadata.Labels) && !r.Spec.DryRun &&
		r.Metadata.DeletionTimestamp == nil
}

// publishedBy: the condition of a type on a node says what the rule that publishes it says.
func (m *Model) publishedBy(n *node, c *condition, t string, by []*rule, v *View) {
	switch {
	case len(by) > 1, len(by) == 1 && n.Metadata.DeletionTimestamp != nil: // it gets nothing new
	case len(by) == 1 && m.node(n.Metadata.UID).full: // its record may have no room for the name
	case len(by) == 0:
		m.check("published", c.Type == "", "node %s has condition %s, which no rule publishes", n.Metadata.Name, t)
	case by[0].Spec.Suspend:
		m.check("published", c.Status != "False", "condition %s of node %s is False, and rule %s is suspended", t,
			n.Metadata.Name, by[0].Metadata.Name)
	case m.says(n, by[0], v) != nil:
		m.check("published", slices.Contains(m.says(n, by[0], v), c.Status), "condition %s of node %s is %q, want %v", t,
			n.Metadata.Name, c.Status, m.says(n, by[0], v))
	}
}

// says is what the condition that an enforced rule publishes may say; nil, where that is left open.
func (m *Model) says(n *node, r *rule, v *View) []string { //nolint:gocyclo // one case after the other
	booted := r.Spec.rearms() && !m.node(n.Metadata.UID).boot.IsZero()
	switch holds := m.holds(n, r, v, true); {
	case booted, holds == yes && !m.steady(n, r, yes, r.Spec.Stabilization.ReadySeconds, v),
		holds == no && !m.steady(n, r, no, r.Spec.Stabilization.UnreadySeconds, v):
		return nil
	case r.Spec.bootstrap() && n.marked(r):
		return []string{"True"}
	case r.Spec.bootstrap() && n.letsPass(r):
		return nil
	case holds == yes:
		return []string{"True"}
	case holds == unknown || v.override(n) != "" && !m.plain(n, r, v):
		return nil
	case v.override(n) != "": // what it would be without it
		return map[answer][]string{yes: {"False"}, no: {"Unknown"}}[m.refuted(n, r, v)]
	case r.Spec.Taint.Key == "" && (r.Spec.Timeout.Seconds > 0 || r.Spec.ExistingNodes != ""):
		return []string{"False", "Unknown"}
	case n.claim(r.Metadata.UID) == "" && r.Spec.Taint.Key != "":
		return []string{"Unknown"}
	case m.refuted(n, r, v) == yes && !r.Spec.limited():
		return []string{"False"}
	case m.refuted(n, r, v) == no:
		return []string{"Unknown"}
	}
	return []string{"False", "Unknown"}
}

// refuted says whether evidence that was reported is why the rule does not hold.
func (m *Model) refuted(n *node, r *rule, v *View) answer {
	if r.Spec.ConditionPolicy == "anyOf" {
		return unknown
	}
	out := no
	for i := range r.Spec.Requirements {
		switch m.refutes(n, &r.Spec.Requirements[i], v) {
		case yes:
			out = yes
		case unknown:
			return unknown
		}
	}
	for _, q := range r.Spec.Conditions {
		c := n.condition(q.Type)
		switch {
		case q.MaxAgeSeconds > 0, q.DefaultStatus != "":
			return unknown
		case c.Type != "" && c.counts() != q.RequiredStatus && c.counts() != "Unknown":
			out = yes
		}
	}
	return out
}

// refutes says whether a requirement is why a rule does not hold, and was reported: an expression that is false, or
// another rule, by its evidence, also under an override.
func (m *Model) refutes(n *node, q *requirement, v *View) answer {
	switch {
	case q.CEL != nil:
		return sure(expressions[q.CEL.Expression](n) == no)
	case q.RuleSatisfied == nil:
		return unknown
	}
	other := read[rule](v.Rules[q.RuleSatisfied.Name])
	if other == nil || !other.Spec.NodeSelector.matches(n.Metadata.Labels) {
		return no
	}
	switch holds := m.holds(n, other, v, true); {
	case holds == unknown || !m.plain(n, other, v):
		return unknown
	case holds == yes:
		return no
	}
	return m.refuted(n, other, v)
}
