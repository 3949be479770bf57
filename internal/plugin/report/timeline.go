// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// timelineWidth is the length of the bars.
const timelineWidth = 40

// Timeline is the start of a node as a chart: one bar for each thing that it waited for.
type Timeline struct {
	// Node explains the node now.
	Node *NodeExplanation
	// FirstPod is when the first of its pods started that is not part of the node; nil if that is not known.
	FirstPod *time.Time
}

// milestone is something that a node waits for in its start.
type milestone struct {
	what string
	// at is when it happened; zero if it is not known, or pending if it has not happened yet.
	at      time.Time
	pending bool
}

// WriteText writes the chart.
func (t *Timeline) WriteText(w io.Writer) error {
	created := t.Node.CreatedAt.Time
	groups := make([][]milestone, 0, len(t.Node.Rules)+1)
	end := created.Add(time.Second)
	for i := range t.Node.Rules {
		groups = append(groups, t.rule(&t.Node.Rules[i]))
	}
	pod := milestone{what: "first pod", pending: t.Node.Held && t.FirstPod == nil}
	if t.FirstPod != nil {
		pod.at = *t.FirstPod
	}
	groups = append(groups, []milestone{pod})
	width := 0
	for _, group := range groups {
		for _, m := range group {
			width = max(width, len(m.what))
			if m.at.After(end) {
				end = m.at
			}
			if m.pending {
				end = t.Node.At.Time
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Node %s, created %s\n", t.Node.Node, created.UTC().Format(time.RFC3339))
	for i, group := range groups {
		if i < len(t.Node.Rules) {
			fmt.Fprintf(&b, "\nrule %s\n", t.Node.Rules[i].Rule)
		} else {
			b.WriteByte('\n')
		}
		for _, m := range group {
			bar, when := m.bar(created, end)
			fmt.Fprintf(&b, "  %-*s  %-*s  %s\n", width, m.what, timelineWidth, bar, when)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rule returns what the node waited for under a rule.
func (t *Timeline) rule(r *RuleExplanation) []milestone {
	released := time.Time{}
	if r.ReleasedAt != nil {
		released = r.ReleasedAt.Time
	}
	out := make([]milestone, 0, len(r.Evidence)+2)
	verdict := milestone{what: "all evidence"}
	if r.Policy == v1alpha1.ConditionPolicyAnyOf {
		verdict.what = "enough evidence"
	}
	known := r.Policy != v1alpha1.ConditionPolicyAnyOf && len(r.Evidence) > 0
	for i := range r.Evidence {
		e := &r.Evidence[i]
		m := milestone{what: "condition " + e.Condition}
		if e.Requirement != "" {
			m.what = "requirement " + e.Requirement
		}
		satisfied := e.Satisfied != nil && *e.Satisfied
		switch {
		case !satisfied && e.Satisfied != nil && released.IsZero():
			m.pending, verdict.pending = true, r.Policy != v1alpha1.ConditionPolicyAnyOf
		case satisfied && e.Since != nil && (released.IsZero() || !e.Since.After(released)):
			m.at = e.Since.Time // a later change hides when it was first true
		}
		known = known && !m.at.IsZero()
		if m.at.After(verdict.at) {
			verdict.at = m.at
		}
		out = append(out, m)
	}
	if !known {
		verdict.at = time.Time{}
	}
	removed := milestone{what: "released", at: released, pending: released.IsZero() && r.State == v1alpha1.NodeStateHeld}
	return append(out, verdict, removed)
}

// bar returns the milestone's bar, and when it happened.
func (m *milestone) bar(created, end time.Time) (bar, when string) {
	cells := func(at time.Time) int {
		return min(timelineWidth, max(0, int(float64(timelineWidth)*at.Sub(created).Seconds()/end.Sub(created).Seconds())))
	}
	switch {
	case m.pending:
		return strings.Repeat("░", timelineWidth), "not yet"
	case m.at.IsZero():
		return "", "unknown"
	case m.at.Before(created):
		return "", "0s"
	}
	return strings.Repeat("█", cells(m.at)), m.at.Sub(created).Round(time.Second).String()
}
