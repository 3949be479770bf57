// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Reasons for a node's state under a rule, as in status.nodeEvaluations.
const (
	ReasonEvidenceHolds   = "EvidenceHolds"
	ReasonCompleted       = "BootstrapCompleted"
	ReasonUnreadyWindow   = "UnreadyWindow"   // not ready, but not for unreadySeconds yet
	ReasonEvidenceMissing = "EvidenceMissing" // held
	ReasonReadyWindow     = "ReadyWindow"     // held: ready, but not for readySeconds yet
	ReasonMinimumHold     = "MinimumHold"     // held: ready, but younger than minimumHoldSeconds
	ReasonRearmed         = "Rearmed"         // held: rebooted
	ReasonBooting         = "Booting"         // rebooted while no operator watched; NoExecute waits for the boot
	ReasonOverrideHold    = "OverrideHold"
	ReasonOverrideRelease = "OverrideRelease"
	ReasonTimedOut        = "TimedOut"
	ReasonExistingNode    = "ExistingNode"
	ReasonOverBudget      = "OverBudget"
	ReasonSuspended       = "Suspended"
	ReasonDryRun          = "DryRun"
	ReasonNotInForce      = "NotInForce" // the rule is invalid
	ReasonTerminating     = "Terminating"
)

// Input is what a decision is made from.
type Input struct {
	Rule     *ruleset.Rule
	Node     *corev1.Node
	State    State
	Verdict  readiness.Verdict
	Override Override
	// Watched is whether this process has seen the node since before its last reboot, with the rule in force.
	Watched bool
	// Occupied says whether a pod runs on the node that the taint would evict or refuse. It is asked where an old node
	// comes to match. If that is not known, the node counts as in service until it is; nil: no pod runs there.
	Occupied func(*corev1.Taint) (occupied, known bool)
	// Busy says whether pods run on the node that are not part of it. It is asked only where existingNodes: Idle makes a
	// difference. If that is not known, or Busy is nil, the node is exempt until it is known.
	Busy func() (busy, known bool)
	// Evicted says whether the pods are evicted that were due when the rule's guard ended. It is asked where the rule does
	// not guard the node any more; nil: nothing evicts pods, and they are not waited for.
	Evicted func() bool
	// Objective is within what time a node should be released for the first time; 0: there is no objective.
	Objective time.Duration
	Now       time.Time
}

// Decision is what becomes of one rule's claim on one node.
type Decision struct {
	Rule *ruleset.Rule
	// Was is what the node said before.
	Was State
	// Claim is whether the rule wants its taint on the node from now on.
	Claim bool
	// Limited: the claim is on a node in service and may be made only if maxUnavailable allows it, else Refuse.
	Limited bool
	// State and Reason are for the rule's status. State is empty for a node that the rule does not match.
	State  v1alpha1.NodeState
	Reason string
	// Record is what to remember. An empty one is not stored.
	Record Record
	// Marked is whether the node must have a completion marker.
	Marked bool
	// Opened: the rule holds, and with this decision the node's gate opens, or it starts to count as released.
	Opened bool
	// Rearmed: the node is started over; its completion annotation goes.
	Rearmed bool
	// TimedOut: the timeout ended just now, because evidence never appeared or in general.
	TimedOut, NeverAppeared bool
	// Startup is where the node is in its start. It has ended only if the patch is accepted.
	Startup Startup
	// Hold is how the rule's eviction guard stands.
	Hold Hold
	// Publication is what the condition that the rule publishes would say; nil, where it publishes none.
	Publication *Publication
	// Unpublished says why the rule does not publish its condition on the node; empty where it does, or has none.
	Unpublished string
	// RecheckAt is when to decide again without any other cause; zero: not.
	RecheckAt time.Time
	// WouldClaim and WouldRelease are what a rule in dry-run would do.
	WouldClaim, WouldRelease bool

	// Frozen: nothing of the rule is changed.
	Frozen  bool
	refused *Decision
}

// Decide decides about one rule on one node. The precedence of modes is: deleting, frozen, dry-run, suspended,
// enforced.
func Decide(in Input) Decision {
	d := Decision{Rule: in.Rule, Was: in.State, Marked: in.State.Completed, RecheckAt: in.Verdict.RecheckAt}
	switch {
	case in.Rule.Mode == ruleset.Deleting:
		return departed(in, Decision{Rule: in.Rule, Was: in.State})
	case in.Rule.Inert():
		return frozen(in, d)
	case !in.State.Matches: // a completion marker stays: the node would otherwise be held again when it comes back
		return departed(in, Decision{Rule: in.Rule, Was: in.State, Marked: in.State.Completed})
	case in.Rule.Mode == ruleset.DryRun:
		return dryRun(in, d)
	}
	return decide(in, d)
}

// Refuse is the decision where maxUnavailable left no room for a claim.
func (d Decision) Refuse() Decision {
	if d.refused == nil {
		return d
	}
	return *d.refused
}

// frozen keeps everything as it is. Only a person can release the nodes of a suspended rule.
func frozen(in Input, d Decision) Decision {
	d.Claim, d.Frozen = in.State.Claimed, true
	d.RecheckAt, d.Hold = time.Time{}, HoldOf(in)
	if !in.State.Matches {
		return d
	}
	suspended := in.Rule.Mode == ruleset.Suspended
	d.State, d.Reason = v1alpha1.NodeStateExempt, ReasonNotInForce
	if suspended {
		d.Reason = ReasonSuspended
	}
	switch {
	case suspended && in.Override.Action == OverrideRelease:
		return d.letGo(in)
	case d.Claim && (in.State.Present || in.Rule.HoldsByVerdict() || !suspended):
		d.State = v1alpha1.NodeStateHeld
	case suspended && in.Verdict.Ready:
		d.State = v1alpha1.NodeStateReady
	}
	return d
}

// letGo is the decision about a node of a suspended rule that a person releases.
func (d Decision) letGo(in Input) Decision {
	d.Reason, d.Claim, d.RecheckAt = ReasonOverrideRelease, false, in.Override.Until
	if in.State.Claimed {
		d.Frozen = false
		r := in.State.Record
		r.dropClaim()
		d.setRecord(r)
	}
	return d
}

// departed takes the claim and the record from a node that the rule has nothing to do with any more. If its guard was
// active there, the record goes when what is due is evicted.
func departed(in Input, d Decision) Decision {
	n := &subject{Input: in}
	was := &in.State.Record
	r := Record{GuardEnded: was.GuardEnded}
	if d.Hold = Ending(in); d.Hold.State != HoldNone { // what was reported before a reboot does not end it
		r.BootID, r.NotBefore, r.RearmedAt, r.Former = was.BootID, was.NotBefore, was.RearmedAt, was.Former
	}
	d.Hold.remember(&r, n.stamp())
	d.setRecord(r)
	return d
}

// dryRun withdraws the claim, remembers what the node has been through, and reports what enforcing would do.
func dryRun(in Input, d Decision) Decision {
	would := decide(in, d)
	d.WouldClaim = would.Claim && !in.State.Present
	d.WouldRelease = !would.Claim && in.State.Present && !in.State.Shared
	d.State, d.Reason = v1alpha1.NodeStateExempt, ReasonDryRun
	if would.State == v1alpha1.NodeStateReady {
		d.State, d.Reason = would.State, would.Reason
	}
	d.RecheckAt = would.RecheckAt
	r := in.State.Record
	r.dropClaim()
	r.TimedOut = metav1.Time{}
	d.Hold = would.Hold
	d.Hold.remember(&r, (&subject{Input: in}).stamp())
	d.setRecord(r)
	return d
}

func (d *Decision) setRecord(r Record) {
	r.Health = d.health(r.Health)
	d.Record = Record{}
	if !r.Empty() {
		d.Record = r
		d.Record.Rule = d.Rule.Name
	}
}

// health is the verdict for /health: whether the rule holds the node back. What lets a node through (maxUnavailable, an
// override, a timeout) lets it have traffic, too. To a node that is being deleted nothing is added.
func (d *Decision) health(before v1alpha1.HealthVerdict) v1alpha1.HealthVerdict {
	switch {
	case d.Rule.Spec.Health == nil || d.State == "" || d.Rule.Mode != ruleset.Enforced && !d.Rule.Inert():
		return ""
	case d.Reason == ReasonTerminating:
		return before
	case d.State == v1alpha1.NodeStateHeld:
		return v1alpha1.HealthNotReady
	}
	return v1alpha1.HealthReady
}

// Manages reports whether the rule's taint on this node is the rule's, regardless of who added it.
func (d *Decision) Manages() bool {
	return d.Was.Matches && d.Rule.Mode == ruleset.Enforced && d.Rule.Taint != nil
}
