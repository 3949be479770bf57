// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/nodeview"
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
	ReasonMinHold         = "MinHold"         // held: ready, but younger than minHoldSeconds
	ReasonRearmed         = "Rearmed"         // held: rebooted
	ReasonBooting         = "Booting"         // rebooted while no operator watched; NoExecute waits for the boot
	ReasonUnknown         = "EvidenceUnknown" // rebooted, and its pods cannot be listed, or a required rule waits
	ReasonOverrideHold    = "OverrideHold"
	ReasonOverrideRelease = "OverrideRelease"
	ReasonTimedOut        = "TimedOut"
	ReasonExistingNode    = "ExistingNode"
	ReasonOverBudget      = "OverBudget"
	ReasonFull            = "AnnotationsFull" // under a limit, and its record would not say that it is held
	ReasonSuspended       = "Suspended"
	ReasonDryRun          = "DryRun"
	ReasonNotInForce      = "NotInForce" // the rule is invalid
	ReasonTerminating     = "Terminating"
)

// Decision is the decision of one rule about one node.
type Decision struct {
	Rule *ruleset.Rule
	// Verdict is the verdict behind the decision. DecideNode fills it in.
	Verdict readiness.Verdict
	// Was is the state of the node before the decision.
	Was nodeview.State
	// Claim reports whether the rule wants its taint on the node.
	Claim bool
	// State and Reason are for the rule's status. State is empty if the rule does not match the node.
	State  v1alpha1.NodeState
	Reason string
	// Record is the new record. An empty record is removed from the node.
	Record nodeview.Record
	// Completed reports whether the node must have a completion marker.
	Completed bool
	// Opened says that the node is ready, and that this decision releases the node, or makes it count as released. It also
	// does so for the first time after a reboot.
	Opened bool
	// Rearmed says that the node must become ready again. Its completion marker is removed.
	Rearmed bool
	// Overdue says that a timeout of the held node has passed, TimedOut which one has passed with this decision.
	Overdue                 bool
	TimedOut, NeverAppeared bool
	// Expired says that the timeout of a rule with action Replace has ended on a node that was never released.
	Expired bool
	// Startup is the state of the node's start, once the patch is accepted.
	Startup Startup
	// Limit says which limit keeps the rule from holding the node, if one does. DecideNode fills it in. Unmarked says that
	// the limits keep the published condition from being False.
	Limit    string
	Unmarked bool
	// Booting says that the rule does not judge the node before its boot is confirmed, also in dry-run.
	Booting bool
	// Hold is the state of the rule's eviction guard.
	Hold guard.Hold
	// Unpublished says why another rule or controller publishes the condition on the node that this rule would publish,
	// Unprobed why another rule publishes that of one of its probes. Each is empty if none does.
	Unpublished, Unprobed string
	// RecheckAt is when to decide again even if nothing changes. Zero means never.
	RecheckAt time.Time
	// WouldClaim and WouldRelease are what a rule in dry-run would do.
	WouldClaim, WouldRelease bool

	// Frozen says that nothing of the rule is changed on the node.
	Frozen bool
}

// Choice is what a rule decides about a node. A claim on a node in service needs maxUnavailable, which DecideNode asks:
// the decision is Granted if the limit allows the claim, and Otherwise if not. Otherwise is nil if no limit is asked.
// Held says that the rule claims the node already, without room under the limit.
type Choice struct {
	Granted   Decision
	Otherwise *Decision
	Held      bool
}

// Decide makes the decision of one rule about one node. Of several modes the first counts: deleting, frozen, dry-run,
// suspended, enforced.
func Decide(in nodeview.Input) Choice {
	d := Decision{Rule: in.Rule, Was: in.State, Completed: in.State.Completed, RecheckAt: in.Verdict.RecheckAt}
	switch {
	case in.Rule.Mode == ruleset.Deleting:
		// The marker stays for a rule of the same name: it would otherwise hold the node again.
		return departed(in, Decision{Rule: in.Rule, Was: in.State, Completed: in.State.Completed && !in.Rule.RemoveMarkers})
	case in.Rule.Inert():
		return Choice{Granted: frozen(in, d)}
	case !in.State.Matches: // a completion marker stays: the node would otherwise be held again when it comes back
		return departed(in, Decision{Rule: in.Rule, Was: in.State, Completed: in.State.Completed})
	case in.Rule.Mode == ruleset.DryRun:
		return dryRun(in, d)
	}
	return decide(in, d)
}

// frozen changes nothing, except what a person asks for: the override Release still releases a node, and dry-run all
// nodes. Both need no evidence. If another controller manages the taint and has removed it, the claim ends.
func frozen(in nodeview.Input, d Decision) Decision {
	d.Claim, d.Frozen = in.State.Claimed, true
	d.RecheckAt, d.Hold = time.Time{}, guard.HoldOf(in)
	suspended := in.Rule.Mode == ruleset.Suspended
	if in.State.Matches {
		d.State, d.Reason = v1alpha1.NodeStateExempt, ReasonNotInForce
		if suspended {
			d.Reason = ReasonSuspended
		}
	}
	switch {
	case in.Rule.Withdrawn():
		d.Frozen = in.State.Record.Published == ""
		return d.letGo(in)
	case in.Rule.Yields() && in.State.Gone(in.Node):
		return d.letGo(in)
	case in.Override.Action == nodeview.OverrideRelease && !in.Rule.Spared(): // also a node that was relabelled since
		d.Reason, d.RecheckAt = ReasonOverrideRelease, in.Override.Until
		return d.letGo(in)
	case !in.State.Matches:
	case d.Claim && (in.State.Present || in.Rule.HoldsByVerdict() || !suspended):
		d.State = v1alpha1.NodeStateHeld
	case suspended && in.Verdict.Ready:
		d.State = v1alpha1.NodeStateReady
	}
	return d
}

// letGo ends the claim of a frozen rule.
func (d Decision) letGo(in nodeview.Input) Decision {
	d.Claim = false
	d.Frozen = d.Frozen && !in.State.Claimed
	r := in.State.Record
	r.DropClaim()
	r.Mark = ""
	// As under a rule in force, an override ends the node's start: the node may run pods from now on. Without a record,
	// the node has not begun to start. A record would say that it is not in service, and the limit would not apply.
	r.Counted = r.Counted || in.Override.Action == nodeview.OverrideRelease && in.State.HasRecord && !in.State.Existing &&
		!r.Started()
	d.setRecord(r)
	return d
}

// departed ends the claim and removes the record of a rule that no longer concerns the node. If the rule's guard was
// active there, the record stays until the pods that are due are evicted.
func departed(in nodeview.Input, d Decision) Choice {
	was := &in.State.Record
	r := nodeview.Record{GuardEnded: was.GuardEnded}
	if d.Hold.Update(in, &r); d.Hold.State != guard.HoldNone { // what was reported before a reboot does not end it
		r.BootID, r.NotBefore, r.RearmedAt, r.Former = was.BootID, was.NotBefore, was.RearmedAt, was.Former
	}
	d.setRecord(r)
	return Choice{Granted: d}
}

// dryRun ends the claim, keeps the rest of the record, and reports what the rule would do if it were enforced, by the
// evidence alone. A record that stays follows the node's reboots: otherwise each pass would find the boot again and
// never confirm it.
func dryRun(in nodeview.Input, d Decision) Choice {
	in.Override.Action = nodeview.OverrideNone
	r := in.State.Record
	r.DropClaim()
	r.KeepStart(func() { r.TimedOut, r.Passed, r.Mark = metav1.Time{}, false, "" })
	if !in.State.Claimed { // what would be done does not change when the record is written
		in.State.Record = r
	}
	would := decide(in, d).Granted
	d.WouldClaim = would.Claim && !in.State.Present
	d.WouldRelease = !would.Claim && in.State.Present && !in.State.Shared
	d.State, d.Reason = v1alpha1.NodeStateExempt, ReasonDryRun
	if would.State == v1alpha1.NodeStateReady {
		d.State, d.Reason = would.State, would.Reason
	}
	d.RecheckAt, d.Booting = would.RecheckAt, would.Booting
	if w := &would.Record; r.BootID != "" {
		r.KeepStart(func() {
			r.BootID, r.NotBefore, r.RearmedAt, r.Former = w.BootID, w.NotBefore, w.RearmedAt, w.Former
		})
	}
	d.Hold = would.Hold
	d.Hold.Remember(in, &r)
	d.setRecord(r)
	return Choice{Granted: d}
}

func (d *Decision) setRecord(r nodeview.Record) {
	r.Health = d.health(r.Health)
	d.Record = nodeview.Record{}
	if !r.Empty() {
		d.Record = r
		d.Record.Rule = d.Rule.Name
	}
}

// SetPublished makes the record say which condition the rule publishes on the node.
func (d *Decision) SetPublished(conditionType string) {
	if d.Frozen {
		return
	}
	r := d.Record
	r.Published = conditionType
	d.setRecord(r)
}

// health returns the verdict for /health: whether the node should receive traffic. A node that is not held because of
// maxUnavailable, an override or a timeout receives traffic, too. A terminating node gets no new verdict.
func (d *Decision) health(before v1alpha1.HealthVerdict) v1alpha1.HealthVerdict {
	switch {
	case d.Rule.Spec.Health == nil || d.State == "" || d.Rule.Spec.DryRun ||
		d.Rule.Mode != ruleset.Enforced && !d.Rule.Inert():
		return ""
	case d.Reason == ReasonTerminating:
		return before
	case d.State == v1alpha1.NodeStateHeld:
		return v1alpha1.HealthNotReady
	}
	return v1alpha1.HealthReady
}

// Manages reports whether the rule owns its taint on this node, no matter who added it.
func (d *Decision) Manages() bool {
	return d.Was.Matches && d.Rule.Mode == ruleset.Enforced && d.Rule.Taint != nil
}
