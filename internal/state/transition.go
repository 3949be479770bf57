// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/replace"
)

// move is a transition of the diagram: the state and the reason for the rule's status.
type move struct {
	state  v1alpha1.NodeState
	reason string
	// timed says that the timeout of the held node runs.
	timed bool
	// limited says that maxUnavailable must allow the transition.
	limited bool
	// existing says that the node is existing from now on.
	existing bool
	// until is when another transition may apply although nothing else changes; zero means never.
	until time.Time
}

func held(reason string) move   { return move{state: v1alpha1.NodeStateHeld, reason: reason} }
func exempt(reason string) move { return move{state: v1alpha1.NodeStateExempt, reason: reason} }
func ready(reason string) move  { return move{state: v1alpha1.NodeStateReady, reason: reason} }

// opens reports whether the transition releases the node because it is ready.
func (m move) opens() bool { return m.reason == ReasonEvidenceHolds }

// after returns the decision that carries out a transition.
func (n *subject) after(m move) Decision {
	moved := *n
	moved.rec.Existing = n.rec.Existing || m.existing
	fresh := n.State.Fresh(&moved.rec)
	moved.d.State, moved.d.Reason, moved.d.Booting = m.state, m.reason, m.reason == ReasonBooting
	switch {
	case m.state == v1alpha1.NodeStateHeld:
		moved.hold(m)
	case m.opens():
		moved.open()
	default:
		moved.endClaim()
	}
	if moved.rec.Domains = ""; m.state == v1alpha1.NodeStateHeld && moved.rec.Limited || n.State.MarkedFalse {
		moved.rec.Domains = n.State.Domains
	}
	moved.start(m)
	if !moved.rec.Released.Equal(&n.State.Record.Released) {
		moved.rec.Found = !moved.rec.Released.IsZero() && (!fresh || !m.opens() || moved.d.Startup == Excluded)
	}
	moved.d.Expired = m.state == v1alpha1.NodeStateHeld && n.d.Overdue && !n.Verdict.Ready &&
		n.Rule.Spec.Timeout.Replaces() && moved.State.Expired(&moved.rec)
	if moved.rec.Mark != "" && n.adds() && (!moved.d.Expired || moved.rec.Mark != replace.MarkOf(n.Rule) ||
		!replace.Replaceable(n.Rule, n.Node, n.Now)) {
		moved.rec.Mark = ""
	}
	moved.d.setRecord(moved.rec)
	return moved.d
}

// hold adds the rule's taint to the node, or keeps it there. A rule without a taint holds the node by its verdict.
func (n *subject) hold(m move) {
	limited := n.Rule.Limited() && (n.rec.Limited || n.State.Counted || m.limited)
	forced := n.Rule.Limited() && !limited && (n.rec.Forced || n.State.Released) // also if it is from before the limit
	if n.Rule.Taint == nil {
		since := n.rec.Since
		n.endClaim()
		if n.Rule.HoldsByVerdict() {
			if since.IsZero() {
				since = n.claim()
			}
			n.rec.Since, n.rec.Limited, n.rec.Forced = since, limited, forced
		}
		return
	}
	n.rec.Limited, n.rec.Forced = limited, forced
	if n.rec.Taint == "" {
		n.rec.Since = n.claim()
		n.rec.Adopted = n.adopts()
	}
	if n.rec.Taint == "" || n.adds() { // an edited taint replaces the old one, where something may be added
		n.rec.Taint = nodeview.FormatTaint(*n.Rule.Taint)
	}
	n.d.Claim = true
}

// claim makes a claim at the current time. maxUnavailable continues to count a node that was in service.
func (n *subject) claim() metav1.Time {
	if n.State.Released && n.rec.Released.IsZero() {
		n.rec.Released = n.Stamp()
	}
	return n.Stamp()
}

// endClaim ends the rule's claim: the node is ready, a timeout or an override releases the node, or it may not hold it.
func (n *subject) endClaim() {
	n.rec.DropClaim()
	n.d.Claim = false
}

// open releases a node because it is ready. It records the release if that makes a difference. An existing node that
// was never held needs no record, unless existingNodes exempts it until it is ready, or the rule requires DaemonSets,
// which count only if they are older than the release.
func (n *subject) open() {
	completes := n.Rule.Spec.BootstrapOnly() && !n.d.Completed
	untouched := n.State.Released && !n.State.Claimed && n.rec.TimedOut.IsZero() &&
		n.Rule.Spec.ExistingNodesOrDefault() == v1alpha1.ExistingNodesAll && len(n.Rule.DaemonSets()) == 0
	remember := n.adds() || n.State.Claimed
	n.d.Opened = n.State.Claimed || remember && !n.rec.RearmedAt.IsZero()
	if !n.rec.RearmedAt.IsZero() && len(n.Rule.DaemonSets()) > 0 {
		n.rec.Released = metav1.Time{} // those that were created before the reboot count from now on
	}
	if remember && n.rec.Released.IsZero() && (!untouched || completes) {
		n.rec.Released = n.Stamp()
		n.d.Opened = true
	}
	if remember && completes {
		n.d.Completed, n.d.Opened = true, true
	}
	if remember { // else nothing would say that the start has ended
		n.rec.TimedOut, n.rec.Passed, n.rec.Handed = metav1.Time{}, false, false
	}
	n.rec.Counted = n.rec.Counted && n.rec.Released.IsZero() // released says it as well
	n.rec.Booted()
	n.endClaim()
}
