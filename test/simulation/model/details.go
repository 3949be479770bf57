// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// evaluation is what the status of a rule says about one node.
type evaluation struct {
	NodeName, State    string
	ConditionResults   []struct{ Type, CurrentStatus, DefaultStatus string }
	RequirementResults []struct {
		Name, Message string
		Satisfied     bool
	}
}

// announces: completionAnnotation is set to the time in Unix seconds, in the write that first releases a node. Only a
// rule that is re-armed removes it.
func (m *Model) announces(was, is, shown *node, v *View) {
	for r := range v.rules() {
		key := r.Spec.CompletionAnnotation
		before, after := was.Metadata.Annotations[key], is.Metadata.Annotations[key]
		if key == "" || before == after || shown == nil || shown.Metadata.Annotations[key] != before ||
			m.rearmedBy(shown, key, v) {
			continue
		}
		at, err := strconv.ParseInt(after, 10, 64)
		m.check("announced", before == "" && err == nil && v.Now.Sub(time.Unix(at, 0)).Abs() < 2*time.Hour,
			"annotation %s of node %s becomes %q, and was %q", key, is.Metadata.Name, after, before)
	}
}

// results: the status has an entry for each node. If the node is not ready, it has the rule's conditions with the
// status that counts, and the rule's requirements, satisfied or not, with the reason.
func (m *Model) results(r *rule, v *View) {
	if v.frozen(r) != "" || !r.Spec.enforced() {
		return
	}
	of := r.Status.NodeEvaluations
	m.check("results", r.Status.Truncated || len(of) == r.Status.Nodes.Matched,
		"the status of rule %s has entries for %d nodes of %d", r.Metadata.Name, len(of), r.Status.Nodes.Matched)
	for i := range of {
		n := read[node](v.Nodes[of[i].NodeName])
		conditions, requirements := len(r.Spec.Conditions), len(r.Spec.Requirements)
		if of[i].State == "Ready" {
			conditions, requirements = 0, 0
		}
		complete := n != nil && len(of[i].ConditionResults) == conditions && len(of[i].RequirementResults) == requirements
		m.check("results", complete, "the status of rule %s says of node %s: %+v", r.Metadata.Name, of[i].NodeName, of[i])
		if complete {
			m.result(n, r, &of[i], v)
		}
	}
}

func (m *Model) result(n *node, r *rule, of *evaluation, v *View) {
	for i := range of.ConditionResults {
		got, q := &of.ConditionResults[i], &r.Spec.Conditions[i]
		c := n.condition(q.Type)
		want, sure := c.status(time.Duration(q.MaxAgeSeconds)*time.Second, v.Now)
		if sure = sure && (q.MaxAgeSeconds == 0 || !m.skewed(n)); c.Type == "" {
			if want, sure = "Unknown", true; q.DefaultStatus != "" {
				want = q.DefaultStatus
			}
		}
		m.check("results", got.Type == q.Type && (!sure || m.rebooted(n, r) == yes || got.CurrentStatus == want),
			"condition %s of node %s is %s under rule %s, and its status says %+v", q.Type, n.Metadata.Name, want,
			r.Metadata.Name, *got)
	}
	for i := range of.RequirementResults {
		got, q := &of.RequirementResults[i], &r.Spec.Requirements[i]
		is := m.meets(n, r, q, v, true)
		m.check("results", got.Name == q.Name && got.Message != "" && (is == unknown || got.Satisfied == (is == yes)),
			"requirement %s of rule %s is satisfied on node %s: %s, and its status says %+v", q.Name, r.Metadata.Name,
			n.Metadata.Name, is, *got)
	}
}

// rereads: after an edit of a rule's evidence, what has no time counts from when the operator first saw it: a node in
// service is not claimed for it before unreadySeconds have passed.
func (m *Model) rereads(shown *node, r *rule, v *View) {
	h, seconds := m.rules[r.Metadata.UID], r.Spec.Stabilization.UnreadySeconds
	if since := h.reread.at; seconds == 0 || h.reread.in == 0 || r.Metadata.Generation < h.reread.in ||
		v.edited(r, 0) || since.Sub(h.inForce[r.Metadata.Generation]) < slack || m.rebooted(shown, r) == yes ||
		!m.undatable(shown, r, v) {
		return
	}
	after := m.now().Sub(h.reread.at)
	m.check("windows", after >= time.Duration(seconds)*time.Second-slack,
		"rule %s claims node %s %s after its evidence was edited, and the window has %d seconds", r.Metadata.Name,
		shown.Metadata.Name, after, seconds)
}

// undatable reports whether evidence without a time surely says since when a rule does not hold: all that is missing,
// or with anyOf some of it. Of requirements, these are the ones that a node shows.
func (m *Model) undatable(n *node, r *rule, v *View) bool {
	undated, dated := 0, 0
	for i := range r.Spec.Conditions {
		q := &r.Spec.Conditions[i]
		switch c := n.condition(q.Type); {
		case q.MaxAgeSeconds > 0 || q.DefaultStatus != "":
			return false
		case c.counts() == q.RequiredStatus:
		case c.Type == "":
			undated++
		default:
			dated++
		}
	}
	for i := range r.Spec.Requirements {
		q := &r.Spec.Requirements[i]
		switch is := m.meets(n, r, q, v, false); {
		case q.Resource == nil && q.CEL == nil && q.NoTaint == nil, is == unknown:
			return false
		case is == no:
			undated++
		}
	}
	return undated > 0 && (dated == 0 || r.Spec.ConditionPolicy == "anyOf")
}

// requiresAs reports whether two versions of a rule require the same.
func (s *spec) requiresAs(other *spec) bool {
	return s.ConditionPolicy == other.ConditionPolicy && reflect.DeepEqual(s.Conditions, other.Conditions) &&
		reflect.DeepEqual(s.Requirements, other.Requirements)
}

// servedEvery is how late the operator may see that other DaemonSets serve a rule.
const servedEvery = time.Minute

// served: a rule's status says which DaemonSet registers a driver that the rule requires, and does not tolerate the
// rule's taint.
func (m *Model) served(r *rule, v *View) {
	t, kept := r.Spec.Taint, ""
	if !m.Webhooks || v.frozen(r) != "" || m.now().Sub(m.setsAt) < servedEvery+5*time.Second || v.Unread {
		return
	}
	for i := range r.Spec.Requirements {
		for _, document := range v.Sets {
			driver, d := r.Spec.Requirements[i].CSIDriver, read[daemonSet](document)
			if driver != nil && t.Key != "" && t.Effect != "PreferNoSchedule" && !d.tolerates(t.Key) &&
				d.registers(driver.Name) {
				kept = d.Metadata.Name
			}
		}
	}
	says := r.says("Served")
	if kept == "" {
		m.check("served", says.Reason != "KeptAway", "the taint of rule %s keeps no DaemonSet away, and its status says: %s",
			r.Metadata.Name, says.Message)
		return
	}
	m.check("served", says.Status == "False" && strings.Contains(says.Message, kept),
		"the taint of rule %s keeps DaemonSet %s away, and its status says: %+v", r.Metadata.Name, kept, says)
}

// registers reports whether pods of the DaemonSet have the socket of a driver.
func (d *daemonSet) registers(driver string) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v struct{ HostPath struct{ Path string } }) bool {
		return strings.HasSuffix(v.HostPath.Path, "/plugins/"+driver)
	})
}
