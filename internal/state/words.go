// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const (
	allHolds   = "all its evidence holds"
	overridden = "the node has the annotation " + v1alpha1.OverrideAnnotation
)

// words say what a reason means: why something has changed, for an event, and why a node has its state, for a user who
// asks kubectl nodegate. An empty text leaves it to the evidence. If final is set, evidence does not matter.
var words = map[string]struct {
	change, state string
	final         bool
}{
	ReasonOverrideHold: {change: overridden, state: "the override annotation holds the node", final: true},
	ReasonOverrideRelease: {change: overridden,
		state: "the override annotation releases the node, regardless of its evidence"},
	ReasonCompleted: {change: "the node has completed it", final: true,
		state: "the node has completed this bootstrap-only rule, which ignores it from then on"},
	ReasonTimedOut:     {change: "its timeout has ended", state: "its timeout has released the node anyway"},
	ReasonReadyWindow:  {change: "it has not been ready for readySeconds yet"},
	ReasonMinHold:      {change: "the node is younger than minHoldSeconds"},
	ReasonExistingNode: {state: "the node is older than the rule, which ignores it until it is ready (existingNodes)"},
	ReasonSuspended:    {state: "the rule is suspended: the operator changes nothing for it"},
	ReasonBooting: {state: "the node rebooted while no operator was running: its NoExecute taint is not added until the " +
		"boot is confirmed"},
	ReasonUnknown: {state: "it is not known whether the node is ready, so it stays untainted"},
	ReasonFull: {state: "the node's annotations have no room for the operator's record, without which the limit would " +
		"not count it: no taint is added"},
	ReasonTerminating: {state: "the node is being deleted: no taint is added"},
}

// Missing says which evidence is missing.
func (d *Decision) Missing() string {
	if d.Verdict.Ready {
		return allHolds
	}
	return d.Verdict.Blocking()
}

// Changed says why the decision changes something on the node. retaints says that the rule has another taint now.
func (d *Decision) Changed(retaints bool) string {
	switch change := words[d.Reason].change; {
	case d.Rule.Mode == ruleset.Deleting:
		return "the rule is being deleted"
	case !d.Was.Matches && !d.Rule.Inert():
		return "the rule no longer selects the node"
	case d.Rule.Spec.DryRun:
		return "the rule is in dry-run"
	case change != "":
		return change
	case retaints:
		return "the rule has another taint now"
	case d.State == v1alpha1.NodeStateReady:
		return allHolds
	}
	return d.Missing()
}

// AfterTimeout says what happens to a held node when a timeout of the rule ends.
func AfterTimeout(t *v1alpha1.Timeout) string {
	switch {
	case t.Releases():
		return "is released anyway"
	case t.Replaces():
		return "stays held, and may be handed over for replacement"
	}
	return "stays held"
}

// missing says which evidence the node waits for, or "".
func (d *Decision) missing() string {
	text := d.Verdict.Blocking()
	if d.Rule.Spec.AnyOf() && text != "" && len(d.Verdict.Results) > 1 {
		return "none of these holds: " + text
	}
	return text
}

// Message says why the node has its state under the rule.
func (d *Decision) Message(now time.Time) string {
	rule, missing := d.Rule, d.missing()
	or := func(text string) string { return cmp.Or(missing, text) }
	switch {
	case rule.Mode == ruleset.Deleting:
		return "the rule is being deleted: the operator removes what it wrote to nodes"
	case d.State == "" && d.Frozen:
		return "the rule no longer selects the node, but is " + strings.ToLower(d.Rule.Mode.String()) +
			": the operator leaves what it wrote there"
	case d.State == "" && !d.Was.Matches:
		return "the rule no longer selects the node: the operator removes what it wrote there"
	case d.Limit != "":
		return d.Limit + ": " + or(allHolds)
	}
	switch d.Reason {
	case ReasonEvidenceMissing:
		text := or("its evidence is missing")
		if t := d.Record.TimedOut; d.Overdue {
			text += fmt.Sprintf("; its timeout ended %s ago and keeps the node held",
				duration.HumanDuration(max(0, now.Sub(t.Time))))
		}
		return text
	case ReasonRearmed:
		return "the node rebooted and is treated as new: " + or("its evidence has not held for long enough since")
	case ReasonReadyWindow:
		text := fmt.Sprintf("%s, but not for %s yet (readySeconds)", allHolds, rule.Spec.ReadyWindow())
		if d.State == v1alpha1.NodeStateReady {
			text += "; the node stays untainted"
		}
		return text
	case ReasonMinHold:
		return fmt.Sprintf("%s, but the node is younger than %s (minHoldSeconds)", allHolds, rule.Spec.MinHold())
	case ReasonUnreadyWindow:
		return fmt.Sprintf("%s, but not for %s yet (unreadySeconds): the node is not held", or("its evidence is missing"),
			rule.Spec.UnreadyWindow())
	case ReasonNotInForce:
		return "the rule is frozen, and the operator changes nothing for it: " + strings.Join(Problems(rule), "; ")
	case ReasonDryRun:
		return "the rule is in dry-run; if enforced, " + d.would() + ": " + or(allHolds)
	}
	w := words[d.Reason]
	switch {
	case w.final:
		return w.state
	case w.state != "":
		return w.state + ": " + or(allHolds)
	}
	return or(allHolds)
}

// would says what a rule in dry-run would do.
func (d *Decision) would() string {
	switch {
	case d.WouldClaim:
		return "it would hold the node"
	case d.WouldRelease:
		return "it would release the node"
	}
	return "it would change nothing here"
}

// Problems returns the problems of a rule, in words.
func Problems(rule *ruleset.Rule) []string {
	var out []string
	for _, p := range rule.Problems {
		out = append(out, p.String())
	}
	return out
}
