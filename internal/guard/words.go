// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/gate"
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

// Event is the content of an event on a node.
type Event struct{ Reason, Action, Text string }

// Began returns the event when a rule begins to guard a node.
func Began(d *gate.Decision) Event {
	return Event{reasonPodsGuarded, actionGuard, fmt.Sprintf(
		"Rule %s guards the node's pods against eviction until %s, or until its evidence holds again",
		d.Rule.Name, d.Hold.Until.UTC().Format(time.RFC3339))}
}

// Ended returns the event when a guard ends and the operator evicts the due pods of the node. why is the reason of the
// rule's decision about the node.
func Ended(d *gate.Decision, why string) Event {
	switch {
	case d.Rule.Mode != ruleset.Enforced || !d.Was.Matches || d.Reason == gate.ReasonOverrideRelease:
	case d.Hold.State == gate.HoldEnded:
		why = "maxHoldSeconds have passed"
	default:
		why = "the rule no longer has an eviction guard"
	}
	return Event{reasonGuardEnded, actionEndGuard, fmt.Sprintf(
		"The eviction guard of rule %s has ended, and the operator evicts the pods that are due (%s)", d.Rule.Name, why)}
}

// Unguarded returns the event when a guard ends and nothing is evicted.
func Unguarded(d *gate.Decision) Event {
	return Event{reasonPodsUnguarded, actionUnguard, fmt.Sprintf("Rule %s no longer guards the node's pods", d.Rule.Name)}
}

func denial(rule *ruleset.Rule, r *Request, why string) string {
	return fmt.Sprintf("the eviction guard of rule %s does not let user %s delete pod %s/%s: node %s %s; to allow it, "+
		"annotate the node or the pod with %s=Release",
		rule.Name, r.User, r.Pod.Namespace, r.Pod.Name, r.Node.Name, why, v1alpha1.OverrideAnnotation)
}
