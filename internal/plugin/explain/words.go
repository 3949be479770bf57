// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Message is why a node stands under a rule as it does, in words.
func Message(d *gate.Decision, v *readiness.Verdict, now time.Time) string {
	rule := d.Rule
	missing := v.Blocking()
	if rule.Spec.AnyOf() && missing != "" && len(v.Results) > 1 {
		missing = "none of these holds: " + missing
	}
	or := func(text string) string {
		if missing != "" {
			return missing
		}
		return text
	}
	switch {
	case rule.Mode == ruleset.Deleting:
		return "the rule is being deleted: what it has put on nodes goes"
	case d.State == "" && !d.Was.Matches:
		return "the rule does not select the node any more: what it has put there goes"
	}
	switch d.Reason {
	case gate.ReasonEvidenceHolds:
		return "all that it requires holds"
	case gate.ReasonEvidenceMissing:
		text := or("its evidence is missing")
		if t := d.Was.Record.TimedOut; !t.IsZero() {
			text += fmt.Sprintf("; its timeout ended %s ago, and keeps the node held", age(now, t.Time))
		}
		return text
	case gate.ReasonRearmed:
		return "the node has rebooted and is started over: " + or("what it requires has not held since for long enough")
	case gate.ReasonReadyWindow:
		text := fmt.Sprintf("all that it requires holds, but not for %s yet (readySeconds)", rule.Spec.ReadyWindow())
		if d.State == v1alpha1.NodeStateReady {
			text += "; the node stays open"
		}
		return text
	case gate.ReasonMinimumHold:
		return fmt.Sprintf("all that it requires holds, but the node is younger than %s (minimumHoldSeconds)", rule.Spec.MinimumHold())
	case gate.ReasonUnreadyWindow:
		return fmt.Sprintf("%s; not for %s yet (unreadySeconds), and so the node is open", or("its evidence is missing"), rule.Spec.UnreadyWindow())
	}
	return exempt(d, or)
}

func exempt(d *gate.Decision, or func(string) string) string {
	const allHolds = "all that it requires holds"
	switch d.Reason {
	case gate.ReasonCompleted:
		return "the node has completed this bootstrap-only rule, which leaves it alone from then on"
	case gate.ReasonOverrideHold:
		return "somebody holds the node by the override annotation"
	case gate.ReasonOverrideRelease:
		return "somebody has released the node by the override annotation, whatever its evidence: " + or(allHolds)
	case gate.ReasonTimedOut:
		return "its timeout has released the node all the same: " + or(allHolds)
	case gate.ReasonExistingNode:
		return "the node was there before the rule, which leaves it alone until it is ready (existingNodes): " + or(allHolds)
	case gate.ReasonOverBudget:
		return fmt.Sprintf("not held, because as many nodes as maxUnavailable allows (%s) are held already: %s", d.Rule.Spec.MaxUnavailable, or(allHolds))
	case gate.ReasonSuspended:
		return "the rule is suspended and holds no further node: " + or(allHolds)
	case gate.ReasonDryRun:
		would := "it would do nothing here"
		switch {
		case d.WouldClaim:
			would = "it would hold the node"
		case d.WouldRelease:
			would = "it would release the node"
		}
		return "the rule is in dry-run; enforced, " + would + ": " + or(allHolds)
	case gate.ReasonNotInForce:
		return "the rule is frozen, nothing of it is added or removed: " + problems(d.Rule)
	case gate.ReasonTerminating:
		return "the node is being deleted, nothing is added to it: " + or(allHolds)
	}
	return or(allHolds)
}

func problems(rule *ruleset.Rule) string {
	texts := make([]string, 0, len(rule.Problems))
	for _, p := range rule.Problems {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}

// summary is the most important thing about a node, in a sentence.
func summary(e *report.NodeExplanation) string {
	switch {
	case e.Override != nil && e.Override.Action == string(gate.OverrideHold) && e.Held:
		return fmt.Sprintf("Node %s is held by hand%s.", e.Node, until(e))
	case e.Override != nil && e.Override.Action == string(gate.OverrideRelease) && !e.Held:
		return fmt.Sprintf("Node %s is released by hand%s: no rule holds it, whatever its evidence.", e.Node, until(e))
	case len(e.HeldBy) == 1:
		return heldByOne(e)
	case e.Held:
		return fmt.Sprintf("Node %s is held by %d rules: %s.", e.Node, len(e.HeldBy), strings.Join(e.HeldBy, ", "))
	}
	for _, r := range e.Rules {
		if r.State == v1alpha1.NodeStateHeld && r.Taint != nil && r.Taint.Change != "" {
			return fmt.Sprintf("Node %s is not held yet; rule %s is %s hold it: %s.", e.Node, r.Rule, soon(e), r.Message)
		}
	}
	for _, r := range e.Rules {
		if r.State == v1alpha1.NodeStateHeld && r.Taint == nil {
			return fmt.Sprintf("Node %s bears no rule's taint, but rule %s, which has none, does not hold there: %s.", e.Node, r.Rule, r.Message)
		}
	}
	return notHeld(e)
}

func heldByOne(e *report.NodeExplanation) string {
	r := find(e, e.HeldBy[0])
	since := ""
	if r.Taint.Since != nil {
		since = " for " + age(e.At.Time, r.Taint.Since.Time)
	}
	if r.Taint.Change == "Remove" {
		return fmt.Sprintf("Node %s is held by rule %s%s and %s be released: %s.", e.Node, r.Rule, since, soon(e), r.Message)
	}
	return fmt.Sprintf("Node %s is held by rule %s%s: %s.", e.Node, r.Rule, since, r.Message)
}

func notHeld(e *report.NodeExplanation) string {
	selecting, exempted := 0, 0
	for _, r := range e.Rules {
		if r.State != "" {
			selecting++
		}
		if r.State == v1alpha1.NodeStateExempt {
			exempted++
		}
	}
	text := fmt.Sprintf("Node %s is not held: ", e.Node)
	switch {
	case selecting == 0:
		text += "no rule selects it"
	case exempted == 1 && selecting == 1:
		text += fmt.Sprintf("rule %s lets it be: %s", e.Rules[0].Rule, e.Rules[0].Message)
	case exempted > 0:
		text += fmt.Sprintf("%s, %d of them only let it be", plural(selecting, "rule selects it", "rules select it"), exempted)
	case selecting == 1:
		text += fmt.Sprintf("rule %s selects it: %s", e.Rules[0].Rule, e.Rules[0].Message)
	default:
		text += fmt.Sprintf("%d rules select it, and are satisfied", selecting)
	}
	if len(e.OtherTaints) > 0 {
		var names []string
		for _, t := range e.OtherTaints {
			names = append(names, t.Taint)
		}
		text += "; other taints keep pods off: " + strings.Join(names, ", ")
	}
	return text + "."
}

// soon says when the operator will do what it has to.
func soon(e *report.NodeExplanation) string {
	if e.Operator != nil && !e.Operator.Leads {
		return "due, as soon as an operator leads, to"
	}
	return "about to"
}

func find(e *report.NodeExplanation, rule string) *report.RuleExplanation {
	for i := range e.Rules {
		if e.Rules[i].Rule == rule {
			return &e.Rules[i]
		}
	}
	return &report.RuleExplanation{}
}

func until(e *report.NodeExplanation) string {
	if e.Override.Until == nil {
		return ""
	}
	return fmt.Sprintf(" for another %s", duration.HumanDuration(e.Override.Until.Sub(e.At.Time)))
}

func age(now, since time.Time) string { return duration.HumanDuration(max(0, now.Sub(since))) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
