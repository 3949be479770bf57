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

// Event is the content of an event on a node about an eviction guard.
type Event struct{ Reason, Action, Text string }

// Began returns the event when a rule begins to guard a node.
func Began(rule *ruleset.Rule, h *Hold) Event {
	return Event{reasonPodsGuarded, actionGuard, fmt.Sprintf(
		"Rule %s guards the node's pods against eviction until %s, or until its evidence holds again",
		rule.Name, h.Until.UTC().Format(time.RFC3339))}
}

// Ended returns the event when a guard ends and the operator evicts the due pods of the node. why is empty if the guard
// of a rule in force ends by its time or by an edit of the rule.
func Ended(rule *ruleset.Rule, h *Hold, why string) Event {
	switch {
	case why != "":
	case h.State == HoldEnded:
		why = "maxHoldSeconds have passed"
	default:
		why = "the rule no longer has an eviction guard"
	}
	return Event{reasonGuardEnded, actionEndGuard, fmt.Sprintf(
		"The eviction guard of rule %s has ended, and the operator evicts the pods that are due (%s)", rule.Name, why)}
}

// Dropped returns the event when a guard ends and nothing is evicted.
func Dropped(rule *ruleset.Rule) Event {
	return Event{reasonPodsUnguarded, actionUnguard, fmt.Sprintf("Rule %s no longer guards the node's pods", rule.Name)}
}
