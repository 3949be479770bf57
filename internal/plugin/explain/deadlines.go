// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// deadlines are what happens on the node by the passage of time alone, the next one first.
func (x *explainer) deadlines() []report.Deadline {
	if x.d.Rule.Mode == ruleset.Frozen || x.d.Rule.Mode == ruleset.Deleting {
		return nil
	}
	var out []report.Deadline
	add := func(at time.Time, format string, args ...any) {
		if at.After(x.in.Now) {
			out = append(out, report.Deadline{At: seconds(at), Rule: x.d.Rule.Name, What: fmt.Sprintf(format, args...)})
		}
	}
	switch {
	case x.d.State == v1alpha1.NodeStateHeld:
		x.heldDeadlines(add)
	case x.d.Reason == gate.ReasonUnreadyWindow:
		add(x.verdict.Since.Add(x.d.Rule.Spec.UnreadyWindow()), "it is held, if its evidence is still missing%s", x.latest())
	}
	if h := &x.d.Hold; h.State == gate.HoldStands && x.d.Rule.Mode != ruleset.DryRun {
		add(h.Until, "its eviction guard ends, if it still does not hold: pods that are due are evicted")
	}
	slices.SortStableFunc(out, func(a, b report.Deadline) int { return a.At.Compare(b.At.Time) })
	return out
}

// guard is how the rule's eviction guard stands, in words.
func (x *explainer) guard() string {
	would := ""
	if x.d.Rule.Mode == ruleset.DryRun {
		would = "were it enforced, "
	}
	switch h := &x.d.Hold; h.State {
	case gate.HoldStands:
		return fmt.Sprintf("%sits pods are guarded from eviction, for %s now", would, age(x.in.Now, h.Since))
	case gate.HoldEnded:
		return fmt.Sprintf("%sits pods are not guarded from eviction any more: maxHoldSeconds have passed since the rule ceased to hold, %s ago", would, age(x.in.Now, h.Since))
	}
	return ""
}

func (x *explainer) heldDeadlines(add func(time.Time, string, ...any)) {
	spec := x.d.Rule.Spec
	if x.d.Reason == gate.ReasonOverrideHold {
		return
	}
	if x.verdict.Ready {
		at := x.verdict.Since.Add(spec.ReadyWindow())
		if young := x.in.Node.CreationTimestamp.Add(spec.MinimumHold()); !x.d.Was.Released && young.After(at) {
			at = young
		}
		add(at, "it is released, if its evidence still holds%s", x.latest())
	}
	for i := range x.verdict.Results {
		if r := &x.verdict.Results[i]; !r.Satisfied && r.Name != "" {
			add(r.ChangesAt, "requirement %s holds, if nothing changes", r.Name)
		}
	}
	if x.d.Record == nil || !x.d.Record.TimedOut.IsZero() || x.d.Rule.Mode == ruleset.DryRun {
		return
	}
	start := x.d.Record.Since.Time
	if start.IsZero() {
		start = x.in.Node.CreationTimestamp.Time
	}
	then := "a warning event says so, and the node stays held"
	if spec.Timeout.Releases() {
		then = "the node is released all the same"
	}
	if after := spec.Timeout.After(); after > 0 {
		add(start.Add(after), "its timeout ends (%s): %s", duration.HumanDuration(after), then)
	}
	if after := spec.Timeout.AppearAfter(); after > 0 && x.verdict.NeverAppeared {
		add(start.Add(after), "its timeout for evidence to appear ends (%s): %s", duration.HumanDuration(after), then)
	}
}

// latest says that a deadline may come earlier: some evidence bears no time, and only the operator has seen since when it is
// as it is.
func (x *explainer) latest() string {
	for i := range x.verdict.Results {
		if r := &x.verdict.Results[i]; r.Satisfied == x.verdict.Ready && r.Since.IsZero() {
			return " (at the latest: only the operator knows since when)"
		}
	}
	return ""
}

// next is what happens next.
func next(e *report.NodeExplanation) *report.Deadline {
	var out *report.Deadline
	take := func(d *report.Deadline) {
		if out == nil || d.At.Time.Before(out.At.Time) {
			out = d
		}
	}
	for i := range e.Rules {
		for j := range e.Rules[i].Deadlines {
			take(&e.Rules[i].Deadlines[j])
		}
	}
	if o := e.Override; o != nil && o.Action != "" && o.Until != nil {
		take(&report.Deadline{At: *o.Until, What: "the override ends, and the rules decide again"})
	}
	return out
}
