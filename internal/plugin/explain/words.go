// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
)

// overridden is the summary of a node that an override holds or releases; empty for other nodes.
func overridden(e *report.NodeExplanation) string {
	if e.Override == nil {
		return ""
	}
	until := ""
	if e.Override.Until != nil {
		until = " for another " + duration.HumanDuration(e.Override.Until.Sub(e.At.Time))
	}
	switch {
	case e.Override.Action == string(nodeview.OverrideHold) && e.Held:
		return fmt.Sprintf("Node %s is held by its override%s.", e.Node, until)
	case e.Override.Action == string(nodeview.OverrideRelease) && !e.Held:
		return fmt.Sprintf("Node %s is released by its override%s: no rule holds it, regardless of its evidence.", e.Node,
			until)
	}
	return ""
}

// summary explains a node in one sentence.
func summary(e *report.NodeExplanation) string {
	if text := overridden(e); text != "" {
		return text
	}
	if len(e.HeldBy) > 1 {
		return fmt.Sprintf("Node %s is held by %d rules: %s.", e.Node, len(e.HeldBy), strings.Join(e.HeldBy, ", "))
	}
	for i := range e.Rules {
		soon := soon(e.Operator, e.Rules[i].Unreported)
		switch r := &e.Rules[i]; {
		case e.Held && r.Rule == e.HeldBy[0]:
			since, and := "", ""
			if r.Taint.Since != nil {
				since = " for " + report.Age(e.At.Time, r.Taint.Since.Time)
			}
			if r.Taint.Change == "Remove" {
				and = " and " + soon + " be released"
			}
			return fmt.Sprintf("Node %s is held by rule %s%s%s: %s.", e.Node, r.Rule, since, and, r.Message)
		case e.Held || r.State != v1alpha1.NodeStateHeld:
		case r.Taint != nil && r.Taint.Change != "":
			return fmt.Sprintf("Node %s is not held yet; rule %s %s hold it: %s.", e.Node, r.Rule, soon, r.Message)
		case r.Taint == nil:
			return fmt.Sprintf("Node %s has no rule's taint, but is not ready under rule %s, which has none: %s.", e.Node,
				r.Rule,
				r.Message)
		}
	}
	return notHeld(e)
}

// soon says when the operator does something for a rule.
func soon(operator *report.Operator, unreported bool) string {
	switch {
	case unreported:
		return "would, if an operator acted on it,"
	case operator != nil && !operator.Leads:
		return "will, as soon as an operator leads,"
	}
	return "is about to"
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
	case selecting == 1 && exempted == 1:
		text += fmt.Sprintf("it is exempt from rule %s: %s", e.Rules[0].Rule, e.Rules[0].Message)
	case selecting == 1:
		text += fmt.Sprintf("rule %s selects it: %s", e.Rules[0].Rule, e.Rules[0].Message)
	case exempted > 0:
		text += fmt.Sprintf("%d rules select it, and it is exempt from %d of them", selecting, exempted)
	default:
		text += fmt.Sprintf("%d rules select it and are satisfied", selecting)
	}
	if len(e.OtherTaints) == 0 {
		return text + "."
	}
	others := make([]string, len(e.OtherTaints))
	for i, t := range e.OtherTaints {
		others[i] = t.Taint
	}
	return text + "; other taints keep pods off: " + strings.Join(others, ", ") + "."
}

// deadlines returns what happens on the node by the passage of time alone, the next change first.
func (x *explainer) deadlines() []report.Deadline {
	if x.d.Rule.Mode == ruleset.Frozen || x.d.Rule.Mode == ruleset.Deleting || x.unreported() {
		return nil
	}
	var out []report.Deadline
	add := func(at time.Time, format string, args ...any) {
		if at.After(x.Now) {
			what := fmt.Sprintf(format, args...)
			out = append(out, report.Deadline{At: *report.Time(at), Rule: x.d.Rule.Name, What: what})
		}
	}
	switch {
	case x.d.State == v1alpha1.NodeStateHeld && x.d.Reason != state.ReasonOverrideHold:
		x.heldDeadlines(add)
	case x.d.Reason == state.ReasonUnreadyWindow:
		add(x.verdict.Since.Add(x.d.Rule.Spec.UnreadyWindow()), "it is held, if its evidence is still missing%s", x.latest())
	}
	if h := &x.d.Hold; h.State == guard.HoldActive {
		add(h.Until, "its eviction guard ends, if it is still not ready: pods that are due are evicted")
		if until, n := x.keptReady(); n > 0 {
			add(until, "its pods become not ready at the latest, if it is still not ready")
		}
	}
	slices.SortStableFunc(out, func(a, b report.Deadline) int { return a.At.Compare(b.At.Time) })
	return out
}

func (x *explainer) heldDeadlines(add func(time.Time, string, ...any)) {
	spec, created := x.d.Rule.Spec, x.node.CreationTimestamp
	if x.verdict.Ready {
		at := x.verdict.Since.Add(spec.ReadyWindow())
		if old := created.Add(spec.MinHold()); !x.d.Was.Released && old.After(at) {
			at = old
		}
		add(at, "it is released, if its evidence still holds%s", x.latest())
	}
	for i := range x.verdict.Results {
		if r := &x.verdict.Results[i]; !r.Satisfied && r.Name != "" {
			add(r.ChangesAt, "requirement %s holds, if nothing changes", r.Name)
		}
	}
	if x.d.Record.Empty() || x.d.Overdue || x.d.Rule.Mode == ruleset.DryRun {
		return
	}
	start := x.d.Record.Since.Time
	if start.IsZero() {
		start = created.Time
	}
	then := "the node " + state.AfterTimeout(spec.Timeout)
	if after := spec.Timeout.After(); after > 0 {
		add(start.Add(after), "its timeout ends (%s): %s", duration.HumanDuration(after), then)
	}
	if after := spec.Timeout.AppearAfter(); after > 0 && x.verdict.NeverAppeared {
		add(start.Add(after), "its timeout for evidence to appear ends (%s): %s", duration.HumanDuration(after), then)
	}
}

// latest says that a deadline may come earlier: some evidence has no time, and only the operator has seen it change.
func (x *explainer) latest() string {
	for i := range x.verdict.Results {
		if r := &x.verdict.Results[i]; r.Satisfied == x.verdict.Ready && r.Since.IsZero() {
			return " (at the latest; only the operator knows the exact time)"
		}
	}
	return ""
}

// guard explains the state of the rule's eviction guard.
func (x *explainer) guard() string {
	switch h := &x.d.Hold; h.State {
	case guard.HoldActive:
		kept := ""
		if _, n := x.keptReady(); n > 0 {
			kept = fmt.Sprintf(", and %d stay ready because of an outage", n)
		}
		return "eviction guard active for " + report.Age(x.Now, h.Since) + ": its pods are not evicted" + kept
	case guard.HoldEnded:
		if x.d.Reason == state.ReasonOverrideRelease {
			return "eviction guard ended: the override annotation releases the node"
		}
		return "eviction guard ended: maxHoldSeconds have passed since the rule stopped holding, " +
			report.Age(x.Now, h.Since) + " ago"
	}
	return ""
}

// keptReady returns how many pods are ready although the node is not, and until when the rule keeps them so at most.
func (x *explainer) keptReady() (until time.Time, n int) {
	until, keeps := guard.EndpointsUntil(x.d.Rule, x.node, x.Now)
	if !keeps || x.Pods == nil {
		return until, 0
	}
	pods, err := x.Pods(x.node.Name)
	if err != nil {
		x.podsErr = err
	}
	for i := range pods {
		if guard.KeptReady(x.node, &pods[i]) {
			n++
		}
	}
	return until, n
}

// next returns what happens next.
func next(e *report.NodeExplanation) *report.Deadline {
	var all []report.Deadline
	for i := range e.Rules {
		all = append(all, e.Rules[i].Deadlines...)
	}
	if o := e.Override; o != nil && o.Action != "" && o.Until != nil {
		all = append(all, report.Deadline{At: *o.Until, What: "the override ends, and the rules decide again"})
	}
	if len(all) == 0 {
		return nil
	}
	first := slices.MinFunc(all, func(a, b report.Deadline) int { return a.At.Compare(b.At.Time) })
	return &first
}
