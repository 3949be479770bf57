// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// gate is the state of one decision on its way.
type gate struct {
	Input
	d   Decision
	rec Record
}

// decide is the way of an enforced or suspended rule, and of one in dry-run as if it were enforced.
func decide(in Input, d Decision) Decision {
	g := &gate{Input: in, d: d, rec: in.State.Record}
	g.boot()
	g.startClock()
	g.forgetLost()
	g.guard()
	switch {
	case in.Override.Action == OverrideRelease:
		g.release(v1alpha1.NodeStateExempt, ReasonOverrideRelease)
		g.recheck(in.Override.Until)
	case in.Override.Action == OverrideHold && g.mayClaim():
		g.claim(ReasonOverrideHold)
		g.recheck(in.Override.Until)
	case g.final():
		g.complete()
	case g.ready():
		g.open()
	case g.State.Claimed || g.State.Present && !g.State.Shared && g.enforced():
		g.hold()
	default:
		g.consider()
	}
	g.d.setRecord(g.rec)
	if g.d.refused != nil {
		g.d.refused.RecheckAt = g.d.RecheckAt
	}
	return g.d
}

// enforced reports whether the rule acts; one in dry-run is judged as if it did.
func (g *gate) enforced() bool { return g.Rule.Mode != ruleset.Suspended }

// addsTo reports whether the rule may add anything to this node.
func (g *gate) addsTo() bool { return g.enforced() && g.Node.DeletionTimestamp.IsZero() }

// mayClaim reports whether the rule may hold this node at all.
func (g *gate) mayClaim() bool { return g.State.Claimed || g.addsTo() }

func (g *gate) recheck(t time.Time) {
	if !t.IsZero() && t.After(g.Now) && (g.d.RecheckAt.IsZero() || t.Before(g.d.RecheckAt)) {
		g.d.RecheckAt = t
	}
}

// stamp is now, as a record has it: in whole seconds, and, by a clock that is behind the API server's, not before the node
// was created; such a time would be taken for a forged one.
func (g *gate) stamp() metav1.Time {
	now := g.Now.Truncate(time.Second)
	if created := g.Node.CreationTimestamp; now.Before(created.Time) {
		return created
	}
	return metav1.NewTime(now)
}

// startClock gives a claim its time that the admission policy made on a node that was there already, where a timeout counts
// from it.
func (g *gate) startClock() {
	if g.rec.Late && g.rec.Since.IsZero() && g.Rule.Spec.Timeout != nil {
		g.rec.Since, g.rec.Late = g.stamp(), false
	}
}

// forgetLost drops a claim whose taint somebody has taken off where the rule adds nothing: it must not be put back. One
// without a taint cannot be lost that way.
func (g *gate) forgetLost() {
	if g.rec.Taint == "" || g.addsTo() {
		return
	}
	if t, err := ParseTaint(g.rec.Taint); err != nil || Find(g.Node, &t) == nil {
		g.rec.Taint, g.rec.Since, g.rec.Late = "", metav1.Time{}, false
		g.State.Claimed = false
	}
}

// boot keeps the boot ID, and starts the node over when it has changed.
func (g *gate) boot() {
	switch {
	case !g.Rule.Spec.RearmsOnReboot():
		g.rec.BootID, g.rec.NotBefore = "", metav1.Time{}
	case g.State.Rebooted:
		g.rec = Record{
			Taint: g.rec.Taint, Since: g.stamp(),
			BootID: g.Node.Status.NodeInfo.BootID, NotBefore: metav1.NewTime(g.State.NotBefore),
		}
		g.d.Marked, g.d.Rearmed = false, true
	case g.rec.BootID == "" && g.addsTo():
		g.rec.BootID = g.Node.Status.NodeInfo.BootID
	}
}

// final reports whether the rule has nothing more to ask of the node: bootstrap-only, and completed.
func (g *gate) final() bool {
	if !g.Rule.Spec.BootstrapOnly() || g.d.Rearmed {
		return false
	}
	return g.d.Marked || !g.rec.TimedOut.IsZero() && g.Rule.Spec.Timeout.Releases()
}

func (g *gate) complete() {
	g.d.RecheckAt = time.Time{}
	if !g.d.Marked { // timed out: let through, but it has not completed
		g.release(v1alpha1.NodeStateExempt, ReasonTimedOut)
		return
	}
	g.release(v1alpha1.NodeStateReady, ReasonCompleted)
}

// ready reports whether the rule holds, and has for long enough.
func (g *gate) ready() bool {
	if !g.Verdict.Ready {
		return false
	}
	settled := g.Verdict.Since.Add(g.Rule.Spec.ReadyWindow())
	g.recheck(settled)
	ok := !g.Now.Before(settled)
	if g.inService() {
		return ok
	}
	if g.Rule.Spec.MinimumHold() <= 0 {
		return ok
	}
	old := g.Node.CreationTimestamp.Add(g.Rule.Spec.MinimumHold())
	g.recheck(old)
	return ok && !g.Now.Before(old)
}

// inService reports whether the node is, by its standing, in service: only then a taint needs stabilization and limit.
func (g *gate) inService() bool { return g.State.Released && !g.d.Rearmed }

// open takes the claim off because the rule holds.
func (g *gate) open() {
	first := g.rec.Released.IsZero()
	completes := g.Rule.Spec.BootstrapOnly() && !g.d.Marked
	// A node that was there before, and whose gate never was closed, need not remember that it is in service, unless
	// the rule exempts such nodes until they are ready.
	untouched := g.inService() && !g.State.Claimed && g.rec.TimedOut.IsZero() &&
		g.Rule.Spec.ExistingNodesOrDefault() == v1alpha1.ExistingNodesAll
	remember := g.addsTo() || g.State.Claimed

	if remember && first && (!untouched || completes) {
		g.rec.Released = g.stamp()
		g.d.Opened = true
	}
	if remember && completes {
		g.d.Marked, g.d.Opened = true, true
	}
	g.d.Opened = g.d.Opened || g.State.Claimed
	g.rec.TimedOut, g.rec.NotBefore = metav1.Time{}, metav1.Time{}
	g.release(v1alpha1.NodeStateReady, ReasonEvidenceHolds)
}

func (g *gate) release(state v1alpha1.NodeState, reason string) {
	g.rec.Taint, g.rec.Since, g.rec.Late = "", metav1.Time{}, false
	g.d.Claim = false
	g.d.State, g.d.Reason = state, reason
}

// claim puts or keeps the rule's taint on the node.
func (g *gate) claim(reason string) {
	if g.Rule.Taint == nil { // the rule has other effects: it holds the node without a taint
		since := g.rec.Since
		if since.IsZero() && g.Rule.HoldsByVerdict() {
			since = g.firstSince()
		}
		g.release(v1alpha1.NodeStateHeld, reason)
		if g.Rule.HoldsByVerdict() {
			g.rec.Since = since
		}
		return
	}
	if g.rec.Taint == "" {
		g.rec.Since = g.firstSince()
	}
	if g.rec.Taint == "" || g.addsTo() { // an edited taint takes the place of the old one, where something may be added
		g.rec.Taint = FormatTaint(*g.Rule.Taint)
	}
	g.d.Claim = true
	g.d.State, g.d.Reason = v1alpha1.NodeStateHeld, reason
}

// firstSince is since when a claim stands that is made now.
func (g *gate) firstSince() metav1.Time {
	if g.inService() && g.rec.Released.IsZero() {
		g.rec.Released = g.stamp() // it was in service: maxUnavailable goes on counting it
	}
	return g.stamp()
}

// hold keeps a claim, or adopts a taint that somebody else put there, until the rule holds or the timeout ends.
func (g *gate) hold() {
	if g.d.Rearmed {
		g.closeNow(ReasonRearmed)
		return
	}
	g.timeout()
	if !g.rec.TimedOut.IsZero() && g.Rule.Spec.Timeout.Releases() {
		g.release(v1alpha1.NodeStateExempt, ReasonTimedOut)
		return
	}
	g.claim(g.holdReason())
}

// closeNow claims, and starts the timeout.
func (g *gate) closeNow(reason string) {
	g.claim(reason)
	g.timeout()
}

func (g *gate) holdReason() string {
	switch {
	case !g.rec.NotBefore.IsZero():
		return ReasonRearmed
	case !g.Verdict.Ready:
		return ReasonEvidenceMissing
	case g.Now.Before(g.Verdict.Since.Add(g.Rule.Spec.ReadyWindow())):
		return ReasonReadyWindow
	}
	return ReasonMinimumHold
}

// timeout looks at both clocks of a held node: from the claim, where its time is known, else from the node's creation.
func (g *gate) timeout() {
	if !g.rec.TimedOut.IsZero() {
		return
	}
	start := g.rec.Since.Time
	if start.IsZero() {
		start = g.Node.CreationTimestamp.Time
		if !g.State.Claimed { // about to adopt a taint: its clock starts now
			start = g.Now
		}
	}
	due := func(after time.Duration) bool {
		if after <= 0 {
			return false
		}
		g.recheck(start.Add(after))
		return !g.Now.Before(start.Add(after))
	}
	appear := g.Verdict.NeverAppeared && due(g.Rule.Spec.Timeout.AppearAfter())
	if appear || due(g.Rule.Spec.Timeout.After()) {
		g.rec.TimedOut = g.stamp()
		g.d.TimedOut, g.d.NeverAppeared = true, appear
	}
}

// consider decides whether a node without a claim gets one. The rule does not hold, or not for long enough.
func (g *gate) consider() {
	existing := g.State.Existing && g.rec.Released.IsZero() && !g.d.Marked && !g.d.Rearmed
	switch {
	case !g.enforced():
		g.idle(ReasonSuspended)
	case !g.Node.DeletionTimestamp.IsZero():
		g.idle(ReasonTerminating)
	case !g.rec.TimedOut.IsZero() && g.Rule.Spec.Timeout.Releases():
		g.idle(ReasonTimedOut)
	case !g.inService():
		g.start()
	case g.Verdict.Ready:
		g.release(v1alpha1.NodeStateReady, ReasonReadyWindow)
	case existing && !g.takesExisting():
		g.release(v1alpha1.NodeStateExempt, ReasonExistingNode)
	case !g.firstClaim(existing) && g.Now.Before(g.Verdict.Since.Add(g.Rule.Spec.UnreadyWindow())):
		g.recheck(g.Verdict.Since.Add(g.Rule.Spec.UnreadyWindow()))
		g.release(v1alpha1.NodeStateReady, ReasonUnreadyWindow)
	default:
		g.retaint()
	}
}

// takesExisting reports whether a node that was there before the rule may get its taint before it has been ready.
func (g *gate) takesExisting() bool {
	switch g.Rule.Spec.ExistingNodesOrDefault() {
	case v1alpha1.ExistingNodesAll:
		return true
	case v1alpha1.ExistingNodesIdle:
		return !controlPlane(g.Node) && g.Busy != nil && !g.Busy()
	}
	return false
}

// controlPlane reports whether a node is one of the control plane.
func controlPlane(node *corev1.Node) bool {
	for _, role := range []string{"control-plane", "master"} {
		if _, ok := node.Labels["node-role.kubernetes.io/"+role]; ok {
			return true
		}
	}
	return false
}

// idle leaves a node without a claim alone.
func (g *gate) idle(reason string) {
	g.release(v1alpha1.NodeStateExempt, reason)
	if g.Verdict.Ready {
		g.d.State = v1alpha1.NodeStateReady
	}
}

// start closes the gate of a node that was never in service, or is started over. No window and no limit delays that.
func (g *gate) start() {
	reason := g.holdReason()
	if g.d.Rearmed {
		reason = ReasonRearmed
	}
	g.closeNow(reason)
}

// firstClaim reports whether the rule has never held on an existing node, as far as anyone can tell.
func (g *gate) firstClaim(existing bool) bool {
	return existing && !g.Verdict.Since.After(g.Rule.InForceSince)
}

// retaint closes the gate of a node in service, within maxUnavailable's limit.
func (g *gate) retaint() {
	if (g.Rule.Taint != nil || g.Rule.HoldsByVerdict()) && g.Rule.Limited() && g.State.Counted {
		refused := g.d
		refused.Limited = true
		refused.State, refused.Reason = v1alpha1.NodeStateExempt, ReasonOverBudget
		refused.setRecord(g.rec)
		g.d.refused = &refused
		g.d.Limited = true
	}
	g.closeNow(ReasonEvidenceMissing)
}
