// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// # The states of an eviction guard on a node
//
//	         not ready                  maxHoldSeconds, or override Release
//	┌──────┐ ─────────────► ┌────────┐ ──────────────────────────────────► ┌───────┐
//	│ None │                │ Active │                                     │ Ended │
//	└──────┘ ◄───────────── └────────┘ ◄────────────────────────────────── └───────┘
//	    ▲    ready and calm      │      ready again                            │
//	    │                        │ the rule is deleted or put in dry-run, or   │
//	    │                        ▼ no longer selects the node or guards it     │
//	    │ what is due       ┌────────┐                                         │
//	    └────────────────── │ Ending │ ◄───────────────────────────────────────┘
//	      is evicted        └────────┘
//
// The record has guardedSince in all states but None, and guardEnded in Ended and Ending. Kubernetes does not try an
// eviction again that was denied: in Ended and Ending the leader evicts what is due, and only then Ending ends. The
// guard of a frozen or suspended rule goes on by its record: it does not begin, and it denies until maxHoldSeconds have
// passed.

// leastCalm is for how long a rule must have held before its eviction guard ends, where readySeconds is less: the node
// controller's last deletions come more than a second after the node is ready again, when its taint goes.
const leastCalm = 10 * time.Second

// recordLag is how late a leader's record of the end of a hold may be.
const recordLag = time.Minute

// HoldState is the state of a rule's eviction guard on a node.
type HoldState string

// The states of an eviction guard.
const (
	// HoldNone: nothing is guarded.
	HoldNone HoldState = ""
	// HoldActive: the node's pods are guarded.
	HoldActive HoldState = "Active"
	// HoldEnded: maxHoldSeconds have passed and the rule still does not hold: what is due is evicted.
	HoldEnded HoldState = "Ended"
	// HoldEnding: the rule does not guard the node any more, and did not recover: what is due is evicted first.
	HoldEnding HoldState = "Ending"
)

// Hold describes a rule's eviction guard on a node.
type Hold struct {
	State HoldState
	// Since is when the rule ceased to hold. Until is when pods cease to be guarded, unless the rule holds again by then.
	Since, Until time.Time
	// Calm, where the rule holds again, is when the guard ends if no taint of the node controller is left.
	Calm time.Time
	// RecheckAt is when the state may change by the passage of time alone; zero: it does not.
	RecheckAt time.Time
}

// HoldOf returns the state of a rule's eviction guard on a node. It uses the raw verdict, without any stabilization,
// and outlasts recovery; a rule in dry-run is judged as if it were enforced.
func HoldOf(in Input) Hold {
	if in.Rule.Mode == ruleset.Frozen || in.Rule.Mode == ruleset.Suspended {
		return RecordedHold(in)
	}
	if !Guards(in) {
		return Ending(in)
	}
	if in.State.Record.GuardedSince.IsZero() && !in.State.Released && !EvictsPods(in.Node) {
		return Hold{} // a new node has lost nothing yet; the leader would not finish the eviction of what is denied
	}
	hold := Hold{State: HoldActive, Since: in.State.Record.GuardedSince.Time}
	switch {
	case in.Override.Action == OverrideRelease:
		return hold.released(in)
	case in.Verdict.Ready:
		return hold.recovering(in)
	}
	if hold.Since.IsZero() {
		hold.Since = lostAt(in)
	}
	hold.Until = hold.Since.Add(in.Rule.Spec.EvictionGuard.MaxHold())
	if in.Now.Before(hold.Until) {
		hold.RecheckAt = hold.Until
		return hold
	}
	hold.State = HoldEnded
	return hold
}

// Guards reports whether the rule guards the node's pods whenever it does not hold. A guard that is active when a
// bootstrap-only rule completes takes its usual course.
func Guards(in Input) bool {
	if in.Rule.Spec.EvictionGuard == nil || !in.State.Matches || in.Rule.Mode == ruleset.Deleting {
		return false
	}
	completed := in.Rule.Spec.BootstrapOnly() && in.State.Completed && !in.State.Rebooted
	return !completed || !in.State.Record.GuardedSince.IsZero()
}

// Ending returns the state of a guard that the rule has no more on the node: none, or ending.
func Ending(in Input) Hold {
	rec := &in.State.Record
	evicted := in.Evicted == nil || !anyEvicts(in.Node) || in.Verdict.Ready
	if rec.GuardedSince.IsZero() || evicted || in.Evicted() {
		return Hold{}
	}
	hold := Hold{State: HoldEnding, Since: rec.GuardedSince.Time, Until: rec.GuardEnded.Time}
	if hold.Until.IsZero() {
		hold.Until = in.Now
	}
	return hold
}

// released returns the state on a node that a person releases: the guard ends at once, and what is due is evicted.
func (h Hold) released(in Input) Hold {
	if h.Since.IsZero() || in.Verdict.Ready {
		return Hold{}
	}
	h.State, h.Until = HoldEnded, h.Since.Add(in.Rule.Spec.EvictionGuard.MaxHold())
	return h
}

// RecordedHold returns the state as the leader has recorded it, for those who cannot judge the rule themselves. If the
// leader is late to record the end, they wait for it for recordLag only.
func RecordedHold(in Input) Hold {
	rec := &in.State.Record
	switch {
	case !Guards(in):
		return Ending(in)
	case rec.GuardedSince.IsZero():
		return Hold{}
	}
	hold := Hold{State: HoldActive, Since: rec.GuardedSince.Time}
	hold.Until = hold.Since.Add(in.Rule.Spec.EvictionGuard.MaxHold())
	end := hold.Until
	if in.Rule.Mode == ruleset.Enforced || in.Rule.Mode == ruleset.DryRun { // else the leader records nothing
		end = end.Add(calm(in.Rule) + recordLag)
	}
	if in.Override.Action == OverrideRelease || !rec.GuardEnded.IsZero() || !in.Now.Before(end) {
		hold.State = HoldEnded
	}
	return hold
}

// calm is for how long a rule must have held before its guard ends.
func calm(rule *ruleset.Rule) time.Duration { return max(rule.Spec.ReadyWindow(), leastCalm) }

// recovering is the hold while the rule holds again: link and verdict may flap, and the node controller has not done
// yet. Only when that has lasted, and its taint is still there, the end of the hold counts.
func (h Hold) recovering(in Input) Hold {
	if h.Since.IsZero() {
		return Hold{}
	}
	h.Until = h.Since.Add(in.Rule.Spec.EvictionGuard.MaxHold())
	h.Calm = in.Verdict.Since.Add(calm(in.Rule))
	switch {
	case in.Now.Before(h.Calm):
		h.RecheckAt = h.Calm
	case !EvictsPods(in.Node):
		return Hold{}
	case in.Now.Before(h.Until):
		h.RecheckAt = h.Until
	default:
		h.State = HoldEnded
	}
	return h
}

// lostAt is when the rule ceased to hold, as far as the rule has been asking for that.
func lostAt(in Input) time.Time {
	since := in.Verdict.Since
	for _, t := range []time.Time{in.Rule.GuardSince, in.Node.CreationTimestamp.Time} {
		if t.After(since) {
			since = t
		}
	}
	if since.After(in.Now) {
		since = in.Now
	}
	return since.Truncate(time.Second)
}

// EvictsPods reports whether the node has a taint by which the node controller evicts pods from a node that is not
// ready.
func EvictsPods(node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		if OfNodeController(&node.Spec.Taints[i]) {
			return true
		}
	}
	return false
}

// anyEvicts reports whether the node has any taint that evicts pods.
func anyEvicts(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints,
		func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// OfNodeController reports whether a taint is one by which the node controller evicts pods from a node that is not
// ready.
func OfNodeController(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady ||
		t.Key == corev1.TaintNodeUnreachable)
}

// guard keeps in the record since when the node's pods are guarded, and when that ended.
func (n *subject) guard() {
	n.d.Hold = HoldOf(n.Input)
	if n.Rule.Mode == ruleset.DryRun { // admission rehearses by itself; a guard from before the dry-run ends
		n.d.Hold = Ending(n.Input)
	}
	n.recheck(n.d.Hold.RecheckAt)
	n.d.Hold.remember(&n.rec, n.stamp())
}

// remember writes the guard's clock into a record.
func (h *Hold) remember(r *Record, now metav1.Time) {
	if h.State == HoldNone {
		r.GuardedSince, r.GuardEnded = metav1.Time{}, metav1.Time{}
		return
	}
	r.GuardedSince = metav1.NewTime(h.Since)
	switch {
	case h.State == HoldActive:
		r.GuardEnded = metav1.Time{}
	case r.GuardEnded.IsZero():
		r.GuardEnded = now
	}
}
