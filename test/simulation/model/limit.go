// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"fmt"
	"strings"
)

// limit: a new claim on a node in service leaves no more of them claimed than maxUnavailable allows. It reports whether
// the claim used the limit: then it counts until it is released, even if the node is cordoned.
//
//nolint:gocyclo // one condition for each exception of the documentation
func (m *Model) limit(shown *node, r *rule, v *View) bool {
	if r.Spec.MaxUnavailable == nil || v.override(shown) == "Hold" || m.inService(shown, r) != yes ||
		shown.Spec.Unschedulable || v.edited(r, 0) || m.hasFull(r, v) {
		return false
	}
	claimed, all := 0, 0
	for n := range each[node](v.Nodes) {
		h := m.node(n.Metadata.UID)
		u := h.under(r.Metadata.UID)
		matches := r.Spec.NodeSelector.matches(n.Metadata.Labels)
		if !matches && (h.last == nil || !r.Spec.NodeSelector.matches(h.last.Metadata.Labels)) {
			continue
		}
		all++ // a node that has just been cordoned or relabelled may count still
		if !matches || n.Spec.Unschedulable && !u.used {
			continue
		}
		now := h.last != nil && h.last.claim(r.Metadata.UID) != ""
		if now && m.inService(n, r) == yes && v.override(n) == "" && !u.forced &&
			(u.claimer == v.Process || n.claim(r.Metadata.UID) != "" && (!u.granted || n.record(r.Metadata.UID).Limited)) {
			claimed++
		}
	}
	m.first(shown, r, v)
	if v.share(r) {
		return true
	}
	if kept := m.keptPlaces(r, v); kept > 0 {
		m.check("places", claimed+kept <= allowed(r.Spec.MaxUnavailable, all),
			"rule %s claims %d nodes in service, by node %s, and %d that are deleted use its limit", r.Metadata.Name, claimed,
			shown.Metadata.Name, kept)
	}
	m.check("limit", claimed <= allowed(r.Spec.MaxUnavailable, all),
		"rule %s claims %d nodes in service of %d, by node %s",
		r.Metadata.Name, claimed, all, shown.Metadata.Name)
	return true
}

// forced: when the override Hold has ended, a node in service is held only if it has a place under the limit.
func (m *Model) forced(r *rule, v *View) {
	if r.Spec.MaxUnavailable == nil || !r.Spec.enforced() || r.Metadata.DeletionTimestamp != nil || v.frozen(r) != "" {
		return
	}
	for n := range each[node](v.Nodes) {
		u := m.node(n.Metadata.UID).under(r.Metadata.UID)
		m.check("limit", !u.forced || n.claim(r.Metadata.UID) == "" || v.override(n) != "" || n.Spec.Unschedulable ||
			n.Metadata.DeletionTimestamp != nil || !r.Spec.NodeSelector.matches(n.Metadata.Labels) ||
			m.inService(n, r) != yes, "rule %s holds node %s, whose override has ended, without a place", r.Metadata.Name,
			n.Metadata.Name)
	}
}

// first: of the nodes that wait for the limit, the one that has been unready for longest is held first.
func (m *Model) first(shown *node, r *rule, v *View) {
	mine := &m.node(shown.Metadata.UID).under(r.Metadata.UID).observed
	since := latest(mine.from, mine.yes, mine.unsure)
	for n := range each[node](v.Nodes) {
		u := m.node(n.Metadata.UID).under(r.Metadata.UID)
		o := &u.observed
		if n.Metadata.UID == shown.Metadata.UID || u.waits != v.Process || n.claim(r.Metadata.UID) != "" ||
			!u.waited.Equal(latest(o.from, o.yes, o.unsure)) || v.override(n) != "" || n.Spec.Unschedulable ||
			!r.Spec.NodeSelector.matches(n.Metadata.Labels) || o.generation != r.Metadata.Generation ||
			!r.timed(n, no) || !r.timed(shown, no) ||
			m.Skewed(n.Metadata.Name) || m.Skewed(shown.Metadata.Name) || mine.yes.IsZero() || o.yes.IsZero() ||
			m.holds(n, r, v, false) != no {
			continue
		}
		m.check("first", !since.Add(-slack).After(u.waited), "rule %s holds node %s, and node %s has been unready for longer",
			r.Metadata.Name, shown.Metadata.Name, n.Metadata.Name)
	}
}

// share reports whether a limit is a percentage of a number that may include nodes that are gone.
func (v *View) share(r *rule) bool {
	return v.Leaving && strings.Contains(string(r.Spec.MaxUnavailable), "%")
}

func allowed(limit json.RawMessage, of int) int {
	text := strings.Trim(string(limit), `"`)
	n := 0
	fmt.Sscan(strings.TrimSuffix(text, "%"), &n)
	if strings.HasSuffix(text, "%") {
		return (n*of + 99) / 100
	}
	return n
}
