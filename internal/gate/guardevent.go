// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

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

// GuardEvent is the content of an event on a node about an eviction guard.
type GuardEvent struct{ Reason, Action, Text string }

// GuardBegan returns the event when a rule begins to guard a node.
func GuardBegan(d *Decision) GuardEvent {
	return GuardEvent{reasonPodsGuarded, actionGuard, fmt.Sprintf(
		"Rule %s guards the node's pods against eviction until %s, or until its evidence holds again",
		d.Rule.Name, d.Hold.Until.UTC().Format(time.RFC3339))}
}

// GuardEnded returns the event when a guard ends and the operator evicts the due pods of the node. why is the reason of
// the rule's decision about the node.
func GuardEnded(d *Decision, why string) GuardEvent {
	switch {
	case d.Rule.Mode != ruleset.Enforced || !d.Was.Matches || d.Reason == ReasonOverrideRelease:
	case d.Hold.State == HoldEnded:
		why = "maxHoldSeconds have passed"
	default:
		why = "the rule no longer has an eviction guard"
	}
	return GuardEvent{reasonGuardEnded, actionEndGuard, fmt.Sprintf(
		"The eviction guard of rule %s has ended, and the operator evicts the pods that are due (%s)", d.Rule.Name, why)}
}

// GuardDropped returns the event when a guard ends and nothing is evicted.
func GuardDropped(d *Decision) GuardEvent {
	return GuardEvent{reasonPodsUnguarded, actionUnguard,
		fmt.Sprintf("Rule %s no longer guards the node's pods", d.Rule.Name)}
}
