// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/readiness"
)

// # The states of a node under a rule
//
//	                 not ready; no window and no limit
//	     ┌─────┐ ──────────────────────────────────────► ┌──────┐ ◄─┐
//	     │ New │                                         │ Held │   │ reboot, with rearmOn
//	     └─────┘                                         └──────┘   │ (from every state, if the operator saw it)
//	        │ ready for readySeconds,                     │ ▲  │  ───┘
//	        │ older than minimumHoldSeconds               │ │  │ timeout, with action: Release
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
// A node starts in service if it existed before the rule, or is older than ServiceAge when it comes to match and runs a
// pod that the taint would evict or refuse, and existingNodes says whether it may leave that state before it was ready
// once. The override Release moves nothing: it only hides the taint. The override Hold moves to Held.
//
// A node in service stays in service if it rebooted while no operator watched it under the rule in force: at a start,
// or when a suspended rule is resumed. Its evidence counts only if it is from after the boot, as with every reboot, so
// it moves to Held after unreadySeconds if maxUnavailable allows it, and with NoExecute not before the boot is
// confirmed. In the same way, a claim from before the rule was last put in force ends if its taint is gone.
//
// A frozen or suspended rule moves nothing and writes nothing. If it is suspended, the override Release still withdraws
// its claim.
//
// What each state keeps on the node, and nothing else does:
//
//	             taint, since   released        timedOut   notBefore   marker
//	New          -              -               -          -           -
//	Held         claim          if it was in    if action  if re-armed -
//	                            service         is Keep
//	In service   -              first release   -          -           -
//	Let pass     -              as it was       when       if re-armed -
//	Completed    -              first release   -          -           yes
//
// decide follows the picture in three steps: recall reads where the node is, next chooses the arrow, and the three
// moves hold, open and pass write what the table says. The eviction guard is a state of its own; see guard.go.

// ServiceAge is how old a node is that may be in service when it comes to match a rule.
const ServiceAge = 10 * time.Minute

// podsRetry is when to ask again for the pods of a node if they could not be listed.
const podsRetry = 30 * time.Second

// subject is a node under a rule, at one moment.
type subject struct {
	Input
	rec     Record // as it counts now
	claimed bool
	rearmed bool
	d       Decision
}

// move is an arrow of the picture: where to, and the state and reason that the rule's status gives.
type move struct {
	to     target
	state  v1alpha1.NodeState
	reason string
	// timed is set where the timeout of a held node counts.
	timed bool
	// limited is set where maxUnavailable has to allow it.
	limited bool
}

// target is the state that an arrow leads to.
type target int

const (
	toPass target = iota
	toHold
	toOpen
)

func held(reason string) move {
	return move{to: toHold, state: v1alpha1.NodeStateHeld, reason: reason}
}
func exempt(reason string) move {
	return move{to: toPass, state: v1alpha1.NodeStateExempt, reason: reason}
}
func served(reason string) move {
	return move{to: toPass, state: v1alpha1.NodeStateReady, reason: reason}
}

// decide decides about an enforced rule, and about one in dry-run as if it were enforced.
func decide(in Input, d Decision) Decision {
	n := &subject{Input: in, rec: in.State.Record, claimed: in.State.Claimed, d: d}
	n.recall()
	n.guard()
	m := n.next()
	if m.timed {
		m = n.expire(m)
	}
	n.d.Limited = m.limited
	if m.limited {
		refused := n.after(exempt(ReasonOverBudget))
		n.d.refused = &refused
	}
	return n.after(m)
}

// after is the decision that a move comes to.
func (n *subject) after(m move) Decision {
	moved := *n
	moved.d.State, moved.d.Reason = m.state, m.reason
	switch m.to {
	case toHold:
		moved.hold()
	case toOpen:
		moved.open()
	default:
		moved.pass()
	}
	moved.start(m.to)
	moved.d.setRecord(moved.rec)
	return moved.d
}

// recall reads the record as it counts now: a reboot starts the node over, a claim of an admission policy gets its
// time, and a claim on a terminating node ends if its taint is gone.
func (n *subject) recall() {
	switch {
	case !n.Rule.Spec.RearmsOnReboot():
		n.rec.forgetBoot()
	case n.State.Rebooted:
		n.rearm()
	case n.rec.BootID == "" && n.adds():
		n.rec.BootID = n.Node.Status.NodeInfo.BootID
	}
	if n.rec.Late && n.rec.Since.IsZero() && n.Rule.Spec.Timeout != nil {
		n.rec.Since, n.rec.Late = n.stamp(), false
	}
	if n.rec.Taint != "" && !n.adds() {
		if t, err := ParseTaint(n.rec.Taint); err != nil || Find(n.Node, &t) == nil {
			n.rec.dropClaim()
			n.claimed = false
		}
	}
	if came, known := n.cameInService(); came {
		n.rec.Existing, n.State.Existing, n.State.Released, n.State.Counted = known, true, true, available(n.Node)
		n.recheckIf(!known, n.Now.Add(podsRetry))
	}
}

// rearm starts a node over that has rebooted. A node in service stays in service if the operator did not see the
// reboot happen: after a time without an operator, many nodes may have rebooted, and the limit applies to them.
func (n *subject) rearm() {
	was := n.rec
	n.rec = Record{
		Taint: was.Taint, Limited: was.Limited, Since: n.stamp(),
		BootID: n.Node.Status.NodeInfo.BootID, NotBefore: metav1.NewTime(n.State.Boot.Bound),
		RearmedAt: n.stamp(), Former: metav1.NewTime(n.State.Boot.Former),
	}
	n.rec.Starting, n.rec.Missed = n.starting(), was.Missed
	n.d.Marked, n.d.Rearmed = false, true
	if n.Watched || !n.State.Released {
		n.rearmed, n.State.Released, n.State.Counted = true, false, was.Limited
		return
	}
	n.rec.Since, n.rec.Released, n.rec.Existing = was.Since, was.Released, was.Existing
	if was.Released.IsZero() && !n.State.Existing {
		n.rec.Released = n.stamp()
	}
}

// cameInService reports whether the node was in service before it came to match the rule. Until that is known, it was.
func (n *subject) cameInService() (came, known bool) {
	if n.Occupied == nil || !n.adds() || n.State.HasRecord || n.State.Released || n.State.Present || n.claimed ||
		n.Now.Sub(n.Node.CreationTimestamp.Time) <= ServiceAge || n.ready() {
		return false, true
	}
	occupied, known := n.Occupied(n.Rule.Taint)
	return occupied || !known, known
}

// next chooses the arrow. The first case that holds decides.
func (n *subject) next() move {
	bootstrapped := n.Rule.Spec.BootstrapOnly() && !n.rearmed
	present := n.State.Present && !n.State.Shared // a taint to adopt
	switch {
	case n.Override.Action == OverrideRelease:
		n.recheck(n.Override.Until)
		return exempt(ReasonOverrideRelease)
	case n.Override.Action == OverrideHold && (n.claimed || n.adds()):
		n.recheck(n.Override.Until)
		return held(ReasonOverrideHold)
	case bootstrapped && n.d.Marked:
		n.d.RecheckAt = time.Time{}
		return served(ReasonCompleted)
	case bootstrapped && n.passes():
		n.d.RecheckAt = time.Time{}
		return exempt(ReasonTimedOut)
	case n.ready():
		return move{to: toOpen, state: v1alpha1.NodeStateReady, reason: ReasonEvidenceHolds}
	case (n.claimed || present) && n.passes():
		return exempt(ReasonTimedOut)
	case n.claimed || present:
		return n.keep()
	case !n.Node.DeletionTimestamp.IsZero():
		return n.idle(ReasonTerminating)
	case n.passes():
		return n.idle(ReasonTimedOut)
	case !n.inService():
		return n.keep()
	}
	return n.leave()
}

// leave chooses the arrow of a node in service for which the rule does not hold, or not for long enough.
func (n *subject) leave() move {
	existing := n.State.Existing && n.rec.Released.IsZero() && !n.d.Marked
	// An existing node that has not been ready since the rule was created has not become unready: no window.
	first := existing && !n.rec.Existing && n.rec.NotBefore.IsZero() &&
		n.Rule.InForceSince.Equal(n.Rule.CreatedAt) && !n.Verdict.Since.After(n.Rule.InForceSince)
	since := n.Verdict.Since
	if n.rec.RearmedAt.After(since) {
		since = n.rec.RearmedAt.Time
	}
	due := since.Add(n.Rule.Spec.UnreadyWindow())
	switch {
	case n.Verdict.Ready:
		return served(ReasonReadyWindow)
	case existing && !n.takesExisting():
		return exempt(ReasonExistingNode)
	case !first && n.Now.Before(due):
		n.recheck(due)
		return served(ReasonUnreadyWindow)
	case !n.bootConfirmed():
		return exempt(ReasonBooting)
	}
	m := held(ReasonEvidenceMissing)
	if !n.rec.NotBefore.IsZero() {
		m.reason = ReasonRearmed
	}
	m.timed = true
	m.limited = (n.Rule.Taint != nil || n.Rule.HoldsByVerdict()) && n.Rule.Limited() && n.State.Counted
	return m
}

// bootConfirmed reports whether a taint of NoExecute may be put on a node in service that has rebooted: until kubelet
// has reported for a while, nothing is known of the pods that started with it.
func (n *subject) bootConfirmed() bool {
	if n.rec.NotBefore.IsZero() || n.Rule.Taint == nil || n.Rule.Taint.Effect != corev1.TaintEffectNoExecute {
		return true
	}
	ok, at := readiness.BootConfirmed(n.Node, n.State.Boot, n.Now)
	n.recheck(at)
	return ok
}

// keep is the arrow to Held that needs no window and no limit, and the one that stays there.
func (n *subject) keep() move {
	m := held(ReasonMinimumHold)
	m.timed = true
	switch {
	case n.rearmed || !n.rec.NotBefore.IsZero():
		m.reason = ReasonRearmed
	case !n.Verdict.Ready:
		m.reason = ReasonEvidenceMissing
	case n.Now.Before(n.Verdict.Since.Add(n.Rule.Spec.ReadyWindow())):
		m.reason = ReasonReadyWindow
	}
	return m
}

// idle leaves a node without a claim alone.
func (n *subject) idle(reason string) move {
	if n.Verdict.Ready {
		return served(reason)
	}
	return exempt(reason)
}

// expire looks at both clocks of a held node: from the claim, where its time is known, else from the node's creation.
func (n *subject) expire(m move) move {
	if !n.rec.TimedOut.IsZero() {
		return m
	}
	start := n.rec.Since.Time
	switch {
	case !n.claimed: // the claim is made now
		start = n.stamp().Time
	case start.IsZero():
		start = n.Node.CreationTimestamp.Time
	}
	due := func(after time.Duration) bool {
		n.recheckIf(after > 0, start.Add(after))
		return after > 0 && !n.Now.Before(start.Add(after))
	}
	appear := n.Verdict.NeverAppeared && due(n.Rule.Spec.Timeout.AppearAfter())
	if !appear && !due(n.Rule.Spec.Timeout.After()) {
		return m
	}
	n.rec.TimedOut = n.stamp()
	n.d.TimedOut, n.d.NeverAppeared = true, appear
	if n.Rule.Spec.Timeout.Releases() {
		return exempt(ReasonTimedOut)
	}
	return m
}

// hold puts or keeps the rule's taint on the node. A rule without one holds by its verdict.
func (n *subject) hold() {
	limited := n.Rule.Limited() && (n.rec.Limited || n.State.Counted)
	if n.Rule.Taint == nil {
		since := n.rec.Since
		n.pass()
		if n.Rule.HoldsByVerdict() {
			if since.IsZero() {
				since = n.claim()
			}
			n.rec.Since = since
			n.rec.Limited = limited
		}
		return
	}
	n.rec.Limited = limited
	if n.rec.Taint == "" {
		n.rec.Since = n.claim()
		n.rec.Adopted = n.Rule.Spec.BootstrapOnly() && n.State.Present && !n.State.Shared
	}
	if n.rec.Taint == "" || n.adds() { // an edited taint replaces the old one, where something may be added
		n.rec.Taint = FormatTaint(*n.Rule.Taint)
	}
	n.d.Claim = true
}

// claim is since when a claim is made that is made now. A node in service stays one that maxUnavailable counts.
func (n *subject) claim() metav1.Time {
	if n.inService() && n.rec.Released.IsZero() {
		n.rec.Released = n.stamp()
	}
	return n.stamp()
}

// pass takes the rule's claim off the node.
func (n *subject) pass() {
	n.rec.dropClaim()
	n.d.Claim = false
}

// open releases a node because the rule holds, and remembers that where it makes a difference: a node that existed
// before, and never was held, need not remember that it is in service, unless existingNodes exempts it until it is
// ready, or DaemonSets are required, which count if they are older than the release.
func (n *subject) open() {
	completes := n.Rule.Spec.BootstrapOnly() && !n.d.Marked
	untouched := n.inService() && !n.claimed && n.rec.TimedOut.IsZero() &&
		n.Rule.Spec.ExistingNodesOrDefault() == v1alpha1.ExistingNodesAll && len(n.Rule.DaemonSets()) == 0
	remember := n.adds() || n.claimed
	n.d.Opened = n.claimed
	if !n.rec.RearmedAt.IsZero() && len(n.Rule.DaemonSets()) > 0 {
		n.rec.Released = metav1.Time{} // those that were created before the reboot count from now on
	}
	if remember && n.rec.Released.IsZero() && (!untouched || completes) {
		n.rec.Released = n.stamp()
		n.d.Opened = true
	}
	if remember && completes {
		n.d.Marked, n.d.Opened = true, true
	}
	n.rec.TimedOut = metav1.Time{}
	n.rec.Counted = n.rec.Counted && n.rec.Released.IsZero() // released says it as well
	n.rec.booted()
	n.pass()
}

// ready reports whether the rule holds, and has for long enough.
func (n *subject) ready() bool {
	if !n.Verdict.Ready {
		return false
	}
	from := n.Verdict.Since.Add(n.Rule.Spec.ReadyWindow())
	n.recheck(from)
	ok := !n.Now.Before(from)
	if n.inService() || n.Rule.Spec.MinimumHold() <= 0 {
		return ok
	}
	old := n.Node.CreationTimestamp.Add(n.Rule.Spec.MinimumHold())
	n.recheck(old)
	return ok && !n.Now.Before(old)
}

// adds reports whether the rule may add anything to this node.
func (n *subject) adds() bool { return n.Node.DeletionTimestamp.IsZero() }

// inService reports whether the node is in service: only then a taint needs a window and a limit.
func (n *subject) inService() bool { return n.State.Released && !n.rearmed }

// passes reports whether the timeout has ended, and lets the node pass.
func (n *subject) passes() bool { return !n.rec.TimedOut.IsZero() && n.Rule.Spec.Timeout.Releases() }

// takesExisting reports whether a node that existed before the rule may get its taint before it has been ready. With
// Idle, it is decided once that a node is busy, as soon as that is known.
func (n *subject) takesExisting() bool {
	switch n.Rule.Spec.ExistingNodesOrDefault() {
	case v1alpha1.ExistingNodesAll:
		return true
	case v1alpha1.ExistingNodesIdle:
		busy, known := true, n.State.Record.Existing || controlPlane(n.Node)
		if !known && n.Busy != nil {
			busy, known = n.Busy()
		}
		n.rec.Existing = n.rec.Existing || known && busy
		n.recheckIf(!known, n.Now.Add(podsRetry))
		return known && !busy
	}
	return false
}

// recheck asks to be called again at a time, if that is in the future.
func (n *subject) recheck(t time.Time) { n.recheckIf(!t.IsZero(), t) }

func (n *subject) recheckIf(wanted bool, t time.Time) {
	if wanted && t.After(n.Now) && (n.d.RecheckAt.IsZero() || t.Before(n.d.RecheckAt)) {
		n.d.RecheckAt = t
	}
}

// stamp is now, as a record has it: in whole seconds, and not before the node was created, by a clock that is behind
// the API server's: such a time would be taken for a forged one.
func (n *subject) stamp() metav1.Time {
	now := n.Now.Truncate(time.Second)
	if created := n.Node.CreationTimestamp; now.Before(created.Time) {
		return created
	}
	return metav1.NewTime(now)
}
