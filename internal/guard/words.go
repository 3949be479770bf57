// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"time"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// Reasons and actions of events on nodes.
const (
	reasonPodsGuarded   = "PodsGuarded"
	reasonGuardEnded    = "GuardEnded"
	reasonPodsUnguarded = "PodsUnguarded"

	actionGuard    = "GuardPods"
	actionEndGuard = "EndGuard"
	actionUnguard  = "UnguardPods"
)

// What a write of the record does to a guard.
const (
	// Guarded: the guard begins on the node.
	Guarded = "guarded"
	// GuardEnded: the guard ends although the node is not ready, and pods that are due are evicted.
	GuardEnded = "guardEnded"
	// Unguarded: the guard ends because the node is ready again, or no longer guards.
	Unguarded = "unguarded"
)

// Event is the content of an event on a node about an eviction guard. Good says that the guard has ended, and nothing
// is evicted.
type Event struct {
	Reason, Action, Text string
	Good                 bool
}

// Event returns the event about the change. ended says why a guard has ended. It is empty if the guard of a rule in
// force ends by its time or by an edit of the rule.
func (h *Hold) Event(rule *ruleset.Rule, ended string) Event {
	switch {
	case h.Change == Guarded:
		until, why := h.Until, ", or until its evidence holds again"
		if h.Calm.After(until) {
			until, why = h.Calm, ": the node is ready again"
		}
		return Event{Reason: reasonPodsGuarded, Action: actionGuard, Text: fmt.Sprintf(
			"Rule %s guards the node's pods against eviction until %s%s", rule.Name, until.UTC().Format(time.RFC3339), why)}
	case h.Change == Unguarded:
		return Event{Reason: reasonPodsUnguarded, Action: actionUnguard, Good: true,
			Text: fmt.Sprintf("Rule %s no longer guards the node's pods", rule.Name)}
	case ended != "":
	case h.State == HoldEnded:
		ended = "maxHoldSeconds have passed"
	default:
		ended = "the rule no longer has an eviction guard"
	}
	return Event{Reason: reasonGuardEnded, Action: actionEndGuard, Text: fmt.Sprintf(
		"The eviction guard of rule %s has ended, and the operator evicts the pods that are due (%s)", rule.Name, ended)}
}
