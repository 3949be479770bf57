// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// timelineWidth is the length of the bars.
const timelineWidth = 40

// The states of a milestone.
const (
	MilestoneReached = "Reached"
	MilestonePending = "Pending" // it has not happened yet
	MilestoneUnknown = "Unknown" // the API server no longer knows whether or when it happened
	MilestoneNone    = "None"    // no pod is there, and the node is not held; or a rule that is not enforced releases none
)

// milestone returns a milestone of a node. The time is zero if it is not known.
func (e *NodeExplanation) milestone(event string, at time.Time, pending bool) Milestone {
	out := Milestone{Event: event, State: MilestoneUnknown}
	switch {
	case pending:
		out.State = MilestonePending
	case !at.IsZero():
		out.State, out.At = MilestoneReached, Time(at)
		out.Seconds = new(max(0, int64(at.Sub(e.CreatedAt.Time).Round(time.Second)/time.Second)))
	}
	return out
}

// NewTimeline returns the start of a node. firstPod is when the first of its pods started that is not part of the node;
// nil if there is none. read says whether the node's pods could be read.
func NewTimeline(node *NodeExplanation, firstPod *time.Time, read bool) *Timeline {
	t := &Timeline{TypeMeta: Type("Timeline"), Node: node.Node, CreatedAt: node.CreatedAt, At: node.At,
		Rules: make([]RuleTimeline, 0, len(node.Rules)), Unread: node.Unread}
	for i := range node.Rules {
		t.Rules = append(t.Rules, node.timelineOf(&node.Rules[i]))
	}
	t.FirstPod = node.milestone("firstPod", ptr.Deref(firstPod, time.Time{}), firstPod == nil && read && node.Held)
	if firstPod == nil && read && !node.Held {
		t.FirstPod.State = MilestoneNone
	}
	return t
}

// Names implements Named.
func (t *Timeline) Names() []string { return []string{"node/" + t.Node} }

// timelineOf returns what the node waited for under a rule.
func (e *NodeExplanation) timelineOf(r *RuleExplanation) RuleTimeline {
	var verdict time.Time
	released := ptr.Deref(r.ReleasedAt, metav1.Time{}).Time
	out := RuleTimeline{Rule: r.Rule, Mode: r.Mode, Policy: r.Policy}
	add := func(event string, at time.Time, pending bool) {
		out.Milestones = append(out.Milestones, e.milestone(event, at, pending))
	}
	anyOf := r.Policy == v1alpha1.ConditionPolicyAnyOf
	known, waits := !anyOf && len(r.Evidence) > 0, false
	for i := range r.Evidence {
		piece := &r.Evidence[i]
		event := "condition/" + piece.Condition
		if piece.Requirement != "" {
			event = "requirement/" + piece.Requirement
		}
		var at time.Time
		satisfied := piece.Satisfied != nil && *piece.Satisfied
		pending := !satisfied && piece.Satisfied != nil && r.New
		if satisfied && piece.Since != nil && (released.IsZero() || !piece.Since.After(released)) {
			at = piece.Since.Time // a later change hides when it was first true
		}
		add(event, at, pending)
		known, waits = known && !at.IsZero(), waits || pending && !anyOf
		if at.After(verdict) {
			verdict = at
		}
	}
	if !known {
		verdict = time.Time{}
	}
	add("evidence", verdict, waits)
	held := r.State == v1alpha1.NodeStateHeld
	add("released", released, r.New && held)
	if released.IsZero() && !held && modeWords[r.Mode] != "" {
		out.Milestones[len(out.Milestones)-1].State = MilestoneNone
	}
	return out
}

// Text implements Report: a chart with one bar for each milestone.
func (t *Timeline) Text(style Style) string {
	p := &chart{page: page{Style: style}, created: t.CreatedAt.Time, end: t.CreatedAt.Add(time.Second)}
	p.fit(&t.FirstPod, t.At.Time)
	for i := range t.Rules {
		for j := range t.Rules[i].Milestones {
			p.fit(&t.Rules[i].Milestones[j], t.At.Time)
		}
	}
	p.line(bold, 0, "Node %s, created %s", t.Node, p.created.UTC().Format(time.RFC3339))
	for i := range t.Rules {
		r := &t.Rules[i]
		p.blank()
		p.line(plain, 0, "rule %s", r.Rule)
		for j := range r.Milestones {
			p.bar(&r.Milestones[j], r)
		}
	}
	p.blank()
	p.bar(&t.FirstPod, &RuleTimeline{})
	p.unread(t.Unread)
	return p.String()
}

// chart is a page of bars.
type chart struct {
	page
	created, end time.Time
	width        int // of the longest name
}

// fit makes room for a milestone.
func (c *chart) fit(m *Milestone, now time.Time) {
	c.width = max(c.width, len(m.words("")))
	if m.State == MilestonePending {
		c.end = now
	}
	if m.At != nil && m.At.After(c.end) {
		c.end = m.At.Time
	}
}

// words are the milestone's name in the chart.
func (m *Milestone) words(policy v1alpha1.ConditionPolicy) string {
	switch {
	case m.Event == "firstPod":
		return "first pod"
	case m.Event == "evidence" && policy == v1alpha1.ConditionPolicyAnyOf:
		return "enough evidence"
	case m.Event == "evidence":
		return "all evidence"
	}
	return strings.Replace(m.Event, "/", " ", 1)
}

// bar writes the bar of a milestone of a rule, and when it happened.
func (c *chart) bar(m *Milestone, r *RuleTimeline) {
	bar, when := "", "unknown"
	switch m.State {
	case MilestonePending:
		bar, when = strings.Repeat("░", timelineWidth), "not yet"
	case MilestoneNone:
		when = "none on the node"
		if m.Event == "released" {
			when = "the rule is " + modeWords[r.Mode]
		}
	case MilestoneReached:
		after := time.Duration(*m.Seconds) * time.Second
		cells := int(timelineWidth * after.Seconds() / c.end.Sub(c.created).Seconds())
		bar, when = strings.Repeat("█", min(timelineWidth, cells)), after.String()
	}
	fmt.Fprintf(c, "  %-*s  %-*s  %s\n", c.width, m.words(r.Policy), timelineWidth, bar, when)
}
