// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strings"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

// Explanation is what there is to say about a node.
func Explanation(e *report.NodeExplanation, style Style) string {
	p := &page{Style: style}
	p.headline(e)
	var short []*report.RuleExplanation
	for i := range e.Rules {
		r := &e.Rules[i]
		if !style.Wide && r.State == v1alpha1.NodeStateReady && !present(r) && len(r.Deadlines) == 0 && r.Guard == "" {
			short = append(short, r)
			continue
		}
		p.rule(r, strings.Contains(e.Summary, r.Message), e.Next)
	}
	if len(short) > 0 {
		p.blank()
		for _, r := range short {
			p.mark(green, 0, "✓", plain, fmt.Sprintf("rule %s: %s", r.Rule, r.Message))
		}
	}
	p.others(e)
	return p.b.String()
}

func present(r *report.RuleExplanation) bool { return r.Taint != nil && r.Taint.Present }

// headline says what one wants to know first, and what to do about it.
func (p *page) headline(e *report.NodeExplanation) {
	c := boldGreen
	if e.Held {
		c = boldRed
	} else if len(e.OtherTaints) > 0 || e.Unschedulable || e.Terminating {
		c = boldYellow
	}
	p.line(c, 0, "%s", e.Summary)
	if e.Next != nil {
		of := ""
		if e.Next.Rule != "" && len(e.HeldBy) != 1 {
			of = "rule " + e.Next.Rule + ": "
		}
		p.line(plain, 0, "Next, %s: %s%s.", p.in(e.Next.At.Time), of, e.Next.What)
	}
	switch {
	case e.Override != nil && e.Override.Problem == "":
		p.command("To let the rules decide again:", "kubectl nodegate clear node "+e.Node)
	case e.Held:
		p.command("To let pods on it at once:", "kubectl nodegate release node "+e.Node)
	}
	if e.Override != nil && e.Override.Problem != "" {
		p.line(yellow, 0, "Its override %q has no effect: %s.", e.Override.Value, e.Override.Problem)
	}
	p.node(e)
	p.operator(e)
}

// node says what of the node itself is out of the ordinary.
func (p *page) node(e *report.NodeExplanation) {
	var odd []string
	switch e.Ready {
	case "True":
	case "":
		odd = append(odd, "has not reported Ready")
	default:
		odd = append(odd, "is Ready="+e.Ready)
	}
	if e.Unschedulable {
		odd = append(odd, "is cordoned")
	}
	if e.Terminating {
		odd = append(odd, "is being deleted")
	}
	if len(odd) > 0 {
		p.line(yellow, 0, "The node itself %s.", strings.Join(odd, ", "))
	}
}

// operator says that nobody acts, where that is known.
func (p *page) operator(e *report.NodeExplanation) {
	switch {
	case e.Operator == nil:
	case !e.Operator.Leads:
		p.line(red, 0, "No operator leads; the last sign of one was %s ago. Nothing changes until one does.", p.ago(e.Operator.RenewedAt.Time))
	case p.Wide:
		p.line(dim, 0, "The operator %s leads; the last sign of it was %s ago.", e.Operator.Leader, p.ago(e.Operator.RenewedAt.Time))
	}
}

// rule writes all about a rule; but neither its message, where that was said already, nor what was said to happen next.
func (p *page) rule(r *report.RuleExplanation, said bool, next *report.Deadline) {
	p.blank()
	p.mark(bold, 0, "rule "+r.Rule, stateColor(r), "("+stateWords(r)+")")
	if !said && (r.Reason != gate.ReasonEvidenceMissing || len(r.Evidence) == 0) {
		p.line(plain, 2, "%s.", sentence(r.Message))
	}
	if r.Reported != nil && r.Reported.State == v1alpha1.NodeStateFailed {
		p.line(red, 2, "The operator could not write to the node (%s, %s ago): %s", r.Reported.Reason, p.ago(r.Reported.At.Time), r.Reported.Message)
	}
	if r.Taint != nil {
		p.line(plain, 2, "Taint %s %s.", r.Taint.Taint, r.Taint.Message)
	}
	if len(r.Evidence) > 0 {
		of := "It needs all of:"
		if r.Policy == v1alpha1.ConditionPolicyAnyOf {
			of = "It needs one of:"
		}
		p.line(plain, 2, "%s", of)
		for i := range r.Evidence {
			p.evidence(&r.Evidence[i])
		}
	}
	if r.Guard != "" {
		p.line(plain, 2, "%s.", sentence(r.Guard))
	}
	for _, d := range r.Deadlines {
		if next != nil && d == *next {
			continue
		}
		p.line(plain, 2, "%s: %s.", sentence(p.in(d.At.Time)), d.What)
	}
	if p.Wide && r.ReleasedAt != nil {
		p.line(dim, 2, "Released for the first time %s ago.", p.ago(r.ReleasedAt.Time))
	}
	if p.Wide && r.Reported != nil && r.Reported.State != v1alpha1.NodeStateFailed {
		p.line(dim, 2, "The operator reports %s, %s, unchanged for %s.", r.Reported.State, r.Reported.Reason, p.ago(r.Reported.At.Time))
	}
}

func stateWords(r *report.RuleExplanation) string {
	state := string(r.State)
	switch {
	case state == "" && strings.HasPrefix(r.Message, "the rule "):
		state = "leaving"
	case state == "":
		state = "unknown"
	}
	if r.Reason != "" {
		state += ", " + r.Reason
	}
	if r.Mode != "Enforced" {
		state += "; the rule is " + modeWords[r.Mode]
	}
	return state
}

var modeWords = map[string]string{"Suspended": "suspended", "DryRun": "in dry-run", "Frozen": "frozen", "Deleting": "being deleted"}

func stateColor(r *report.RuleExplanation) color {
	switch r.State {
	case v1alpha1.NodeStateHeld, v1alpha1.NodeStateFailed:
		return red
	case v1alpha1.NodeStateReady:
		return green
	}
	return yellow
}

func (p *page) evidence(e *report.Evidence) {
	mark, c := "?", yellow
	if e.Satisfied != nil {
		mark, c = "✗", red
		if *e.Satisfied {
			mark, c = "✓", green
		}
	}
	var when []string
	if e.Since != nil {
		when = append(when, "for "+p.ago(e.Since.Time))
	}
	if e.Heartbeat != nil && e.Cause != "Stale" {
		when = append(when, "reported "+p.ago(e.Heartbeat.Time)+" ago")
	}
	if e.ChangesAt != nil && e.Condition != "" && p.Wide {
		when = append(when, "stale "+p.in(e.ChangesAt.Time))
	}
	text := e.Message
	if e.Requirement != "" && e.Satisfied != nil {
		text = e.Requirement + ": " + text
	}
	if len(when) > 0 {
		text += " (" + strings.Join(when, ", ") + ")"
	}
	p.mark(c, 4, mark, plain, text)
}

// others are the taints and the rules that have nothing to do with it.
func (p *page) others(e *report.NodeExplanation) {
	if len(e.OtherTaints) > 0 {
		p.blank()
		p.line(plain, 0, "Other taints:")
		for _, t := range e.OtherTaints {
			p.line(plain, 2, "%s: %s", t.Taint, t.By)
		}
	}
	if n := len(e.NotSelectedBy); n > 0 {
		p.blank()
		switch {
		case p.Wide || len(e.Rules) == 0 && n <= 10:
			p.line(plain, 0, "Rules that do not select it:")
			for _, r := range e.NotSelectedBy {
				p.line(dim, 2, "%s: %s", r.Rule, r.Why)
			}
		default:
			p.line(dim, 0, "%s not select it; -o wide says why.", plural(n, "other rule does", "other rules do"))
		}
	}
	for i, u := range e.Unread {
		if i == 0 {
			p.blank()
		}
		p.line(yellow, 0, "Could not be read: %s", u)
	}
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
