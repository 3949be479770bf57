// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// # The states of a node under a rule
//
//	                 not ready; no window and no limit
//	     ┌─────┐ ──────────────────────────────────────► ┌──────┐ ◄─┐
//	     │ New │                                         │ Held │   │ reboot, with rearmOn
//	     └─────┘                                         └──────┘   │ (from every state, if the operator saw it)
//	        │ ready for readySeconds,                     │ ▲  │  ───┘
//	        │ older than minHoldSeconds                   │ │  │ timeout, with action: Release
//	        │   ┌─────────────────────────────────────────┘ │  └──────────────┐
//	        ▼   ▼   ready for readySeconds                  │                 ▼
//	     ┌────────────┐  not ready for unreadySeconds,      │            ┌──────────┐
//	     │ In service │ ──────────────────────────────────► ┘            │ Let pass │
//	     └────────────┘  and maxUnavailable allows it                    └──────────┘
//	        │      ▲         ready for readySeconds                           │
//	        │      └──────────────────────────────────────────────────────────┘
//	        │ at once, with bootstrap-only
//	        ▼
//	   ┌───────────┐
//	   │ Completed │   final until re-armed; so is Let pass with bootstrap-only
//	   └───────────┘
//
// A node begins in service if it existed before the rule, or if it is older than ServiceAge when the rule begins to
// match it and runs a pod that the taint would evict or refuse. existingNodes then says whether the node may be held
// before it was ready once. The override Release changes no state: it only removes the taint. The override Hold moves
// to Held without the limit, which is asked when the override has ended.
//
// After a reboot that no operator has seen with the rule in force, before a start of the operator or while the rule was
// suspended, a node in service stays in service. As after every reboot, only evidence from after the boot counts. So
// the node moves to Held after unreadySeconds if maxUnavailable allows it, and with NoExecute not before the boot is
// confirmed. Similarly, a claim from before the rule was last put in force ends if its taint is no longer on the node.
// While the pods of a rebooted node cannot be listed, this alone does not move a node from In service or Held. The same
// applies under rules that require a rule which waits until the boot is confirmed. Without room for its record, a node
// in service does not move to Held under a limit.
//
// A frozen or suspended rule changes no state and writes nothing. Only the override Release still ends the claim of a
// suspended rule. If another controller manages the taint of a frozen rule and removes it, the claim ends, too.
//
// The record and the marker on the node have, in each state:
//
//	             taint, since   released        timedOut   notBefore   marker
//	New          -              -               -          -           -
//	Held         claim          if it was in    if it has  if re-armed -
//	                            service         ended
//	In service   -              first release   -          -           -
//	Let pass     -              as it was       + passed   if re-armed -
//	Completed    -              first release   -          -           yes
//
// decide follows the diagram in three steps. recall reads the current state from the node. next chooses the transition,
// and changes nothing. hold, open and endClaim, in transition.go, carry it out and write the record as in the table.
// Package guard has the states of the eviction guard.

// podsRetry is the delay before the next try if the pods of a node could not be listed.
const podsRetry = 30 * time.Second

// subject is a node under a rule at one time.
type subject struct {
	nodeview.Input
	rec nodeview.Record // as it counts now
	d   Decision
}

// answer is the answer of a predicate, and when it may change by time alone. Zero means never.
type answer struct {
	yes   bool
	until time.Time
}

// decide makes the decision of an enforced rule, or of a rule in dry-run as if it were enforced.
func decide(in nodeview.Input, d Decision) Choice {
	n := &subject{Input: in, rec: in.State.Record, d: d}
	asked := n.recall()
	n.d.Hold.Update(n.Input, &n.rec)
	m := n.next()
	if m.reason == ReasonCompleted { // no evidence matters any more
		n.d.RecheckAt = time.Time{}
	}
	if m.timed {
		m = n.expire(m)
	}
	for _, at := range []time.Time{asked, n.d.Hold.RecheckAt, m.until} {
		n.recheck(at)
	}
	if !m.limited {
		return Choice{Granted: n.after(m)}
	}
	refused := n.after(exempt(ReasonOverBudget))
	return Choice{Granted: n.after(m), Otherwise: &refused, Held: n.State.Claimed}
}

// recall brings the record up to date: after a reboot the node must become ready again, the claim of an admission
// policy gets its time, and a claim on a terminating node ends if its taint is no longer there. It returns when to ask
// again what is not known yet.
func (n *subject) recall() (again time.Time) {
	switch {
	case !n.Rule.Spec.RearmsOnReboot():
		n.rec.ForgetBoot()
	case n.State.Rebooted:
		n.rearm()
	case n.rec.BootID == "" && n.adds():
		n.rec.BootID = nodeview.BootID(n.Node.Status.NodeInfo.BootID)
	}
	if n.rec.Late && n.rec.Since.IsZero() && n.Rule.Spec.Timeout != nil {
		n.rec.Since, n.rec.Late = n.Stamp(), false
	}
	if !n.adds() {
		if n.State.Gone(n.Node) {
			n.rec.DropClaim()
			n.State.Claimed = false
		}
	}
	if came, known := n.cameInService(); came {
		n.rec.Existing, n.State.Existing, n.State.Released = known, true, true
		n.State.Counted = nodeview.Available(n.Node, n.Now)
		again = n.retryPods(known)
	}
	return again
}

// rearm makes a rebooted node become ready again. If no operator has seen the reboot, a node in service stays in
// service: many nodes may have rebooted while no operator was running, and the limit applies to them.
func (n *subject) rearm() {
	was := n.rec
	n.rec = nodeview.Record{
		Taint: was.Taint, Limited: was.Limited, Since: n.Stamp(),
		BootID: nodeview.BootID(n.Node.Status.NodeInfo.BootID), NotBefore: metav1.NewTime(n.State.Boot.Bound),
		RearmedAt: n.Stamp(), Former: metav1.NewTime(n.State.Boot.Former),
	}
	n.rec.Starting, n.rec.Missed, n.rec.Handed = n.starting(), was.Missed, was.Handed
	n.d.Completed, n.d.Rearmed = false, true
	if n.Watched || !n.State.Released {
		n.State.Released, n.State.Counted = false, was.Limited
		return
	}
	n.rec.Since, n.rec.Released, n.rec.Found, n.rec.Existing = was.Since, was.Released, was.Found, was.Existing
	n.rec.Forced = was.Forced
	if was.Released.IsZero() && !n.State.Existing {
		n.rec.Released = n.Stamp()
	}
}

// cameInService reports whether the node was in service when the rule began to match it. If that is unknown, it counts
// as in service.
func (n *subject) cameInService() (came, known bool) {
	if n.Occupied == nil || !n.adds() || n.State.HasRecord || n.State.Released || n.adopts() || n.State.Claimed ||
		n.Now.Sub(n.Node.CreationTimestamp.Time) <= nodeview.ServiceAge || n.holds().yes {
		return false, true
	}
	occupied, known := n.Occupied(n.Rule.Taint)
	return occupied || !known, known
}

// next chooses the transition. The first case that applies decides.
func (n *subject) next() move {
	bootstrapOnly := n.Rule.Spec.BootstrapOnly()
	present := n.adopts()
	holds := n.holds()
	switch {
	case n.Override.Action == nodeview.OverrideRelease:
		return n.at(exempt(ReasonOverrideRelease), n.Override.Until)
	case n.Override.Action == nodeview.OverrideHold && (n.State.Claimed || n.adds()):
		return n.at(held(ReasonOverrideHold), n.Override.Until)
	case bootstrapOnly && n.d.Completed:
		return ready(ReasonCompleted)
	case bootstrapOnly && n.rec.Passed:
		return exempt(ReasonTimedOut)
	case holds.yes:
		return ready(ReasonEvidenceHolds)
	case (n.State.Claimed || present) && n.rec.Passed:
		return n.at(exempt(ReasonTimedOut), holds.until)
	case n.State.Claimed || present:
		return n.at(n.keep(), holds.until)
	case !n.Node.DeletionTimestamp.IsZero():
		return n.at(n.idle(ReasonTerminating), holds.until)
	case n.rec.Passed:
		return n.at(n.idle(ReasonTimedOut), holds.until)
	case !n.State.Released:
		return n.at(n.keep(), holds.until)
	}
	return n.at(n.leave(), holds.until)
}

// leave chooses the transition of a node in service that is not ready, or not for long enough.
func (n *subject) leave() move {
	existing := n.State.Existing && n.rec.Released.IsZero() && !n.d.Completed
	first := existing && n.neverReady()
	due := n.unreadySince().Add(n.Rule.Spec.UnreadyWindow())
	taken := answer{yes: true}
	if existing && !n.Verdict.Ready { // to ask whether the node is busy may take a request
		taken = n.takesExisting()
	}
	booted := n.bootConfirmed()
	switch {
	case n.Verdict.Ready:
		return ready(ReasonReadyWindow)
	case existing && !taken.yes:
		m := n.at(exempt(ReasonExistingNode), taken.until)
		m.existing = n.Rule.Spec.ExistingNodesOrDefault() == v1alpha1.ExistingNodesIdle && taken.until.IsZero()
		return m
	case n.Verdict.Unknown: // the window begins when the evidence can be read again
		return exempt(ReasonUnknown) // the caller asks again
	case !first && n.Now.Before(due):
		return n.at(ready(ReasonUnreadyWindow), due)
	case !booted.yes:
		return n.at(exempt(ReasonBooting), booted.until)
	case n.NoRoom && n.Rule.Limited(): // without a record, the limit would not count the node
		return exempt(ReasonFull)
	}
	m := held(ReasonEvidenceMissing)
	if !n.rec.NotBefore.IsZero() {
		m.reason = ReasonRearmed
	}
	m.timed = true
	m.limited = Holds(n.Rule) && n.Rule.Limited() && n.State.Counted
	return m
}

// neverReady reports whether an existing node was never ready under the rule. It has not become unready, so that
// unreadySeconds do not apply. By a clock that is behind, the rule may be younger than the verdict that this process
// saw before.
func (n *subject) neverReady() bool {
	return !n.rec.Existing && n.rec.NotBefore.IsZero() && !n.Verdict.Observed.Turned &&
		n.Rule.InForceSince.Equal(n.Rule.CreatedAt) && !n.Verdict.Since.After(n.Rule.InForceSince)
}

// unreadySince is when the window of unreadySeconds began: the evidence changed, or the rule was armed again.
func (n *subject) unreadySince() time.Time {
	if at := n.rec.RearmedAt.Time; at.After(n.Verdict.Since) && !at.After(n.Now) { // else the clock is behind
		return at
	}
	return n.Verdict.Since
}

// bootConfirmed reports whether a rebooted node in service may get a NoExecute taint. Until kubelet has reported for a
// while, the state of the pods that started with it is unknown.
func (n *subject) bootConfirmed() answer {
	if n.rec.NotBefore.IsZero() || n.Rule.Taint == nil || n.Rule.Taint.Effect != corev1.TaintEffectNoExecute {
		return answer{yes: true}
	}
	ok, at := evidence.BootConfirmed(n.Node, n.State.Boot, n.Now)
	return answer{ok, at}
}

// keep is the transition to Held without unreadySeconds and limit, and the one that stays in Held. Only after the
// override Hold, and on a node that was cordoned, the limit must allow it.
func (n *subject) keep() move {
	m := held(ReasonMinHold)
	m.timed, m.limited = true, n.rec.Forced && n.Rule.Limited() && nodeview.Available(n.Node, n.Now)
	switch {
	case !n.rec.NotBefore.IsZero():
		m.reason = ReasonRearmed
	case !n.Verdict.Ready:
		m.reason = ReasonEvidenceMissing
	case n.Now.Before(n.Verdict.Since.Add(n.Rule.Spec.ReadyWindow())):
		m.reason = ReasonReadyWindow
	}
	return m
}

// idle changes nothing on a node without a claim.
func (n *subject) idle(reason string) move {
	if n.Verdict.Ready {
		return ready(reason)
	}
	return exempt(reason)
}

// expire checks both timeouts of a held node, as the rule has them now. They run from the claim if its time is known,
// or else from the creation of the node. The record may say that an earlier deadline passed, from before an edit.
func (n *subject) expire(m move) move {
	start := n.rec.Since.Time
	switch {
	case !n.State.Claimed: // the claim is made now
		start = n.Stamp().Time
	case start.IsZero():
		start = n.Node.CreationTimestamp.Time
	}
	var deadline time.Time
	due := func(after time.Duration) bool {
		if after <= 0 {
			return false
		}
		deadline = start.Add(after)
		m = n.at(m, deadline)
		return !n.Now.Before(deadline)
	}
	appear := n.Verdict.NeverAppeared && due(n.Rule.Spec.Timeout.AppearAfter())
	n.d.Overdue = appear || due(n.Rule.Spec.Timeout.After())
	if !n.d.Overdue {
		n.d.Overdue = n.Verdict.Unknown && n.rec.Mark != "" // the mark stays
		return m
	}
	if n.rec.TimedOut.Time.Before(deadline) {
		n.rec.TimedOut = n.Stamp()
		n.d.TimedOut, n.d.NeverAppeared = true, appear
	}
	if n.Rule.Spec.Timeout.Releases() {
		n.rec.Passed = true
		return n.at(exempt(ReasonTimedOut), m.until)
	}
	return m
}

// holds reports whether the evidence has held for long enough.
func (n *subject) holds() answer {
	if !n.Verdict.Ready {
		return answer{}
	}
	from := n.Verdict.Since.Add(n.Rule.Spec.ReadyWindow())
	ok, until := !n.Now.Before(from), n.sooner(time.Time{}, from)
	if n.State.Released || n.Rule.Spec.MinHold() <= 0 {
		return answer{ok, until}
	}
	old := n.Node.CreationTimestamp.Add(n.Rule.Spec.MinHold())
	return answer{ok && !n.Now.Before(old), n.sooner(until, old)}
}

// adds reports whether the rule may add anything to this node.
func (n *subject) adds() bool { return n.Node.DeletionTimestamp.IsZero() }

// adopts reports whether the node has the rule's taint, and not because another rule claims it.
func (n *subject) adopts() bool { return n.State.Present && !n.State.Shared }

// takesExisting reports whether an existing node may get the taint before it was ready once. With existingNodes: Idle
// this is decided once, as soon as it is known whether the node is busy.
func (n *subject) takesExisting() answer {
	switch n.Rule.Spec.ExistingNodesOrDefault() {
	case v1alpha1.ExistingNodesAll:
		return answer{yes: true}
	case v1alpha1.ExistingNodesIdle:
		busy, known := true, n.State.Record.Existing || ruleset.ControlPlane(n.Node.Labels)
		if !known && n.Busy != nil {
			busy, known = n.Busy()
		}
		return answer{known && !busy, n.retryPods(known)}
	}
	return answer{}
}

// retryPods returns when to ask again about pods that could not be listed, or zero if they are known.
func (n *subject) retryPods(known bool) time.Time {
	if known {
		return time.Time{}
	}
	return n.Now.Add(podsRetry)
}

// recheck requests another decision at a time, if that is in the future.
func (n *subject) recheck(t time.Time) { n.d.RecheckAt = n.sooner(n.d.RecheckAt, t) }

// at returns the transition with one more time at which another one may apply.
func (n *subject) at(m move, t time.Time) move {
	m.until = n.sooner(m.until, t)
	return m
}

// sooner returns the sooner of two times, of which zero means never, and t counts only if it is in the future.
func (n *subject) sooner(than, t time.Time) time.Time {
	if t.After(n.Now) && (than.IsZero() || t.Before(than)) {
		return t
	}
	return than
}
