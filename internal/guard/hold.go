// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// # The states of an eviction guard on a node
//
//	         not ready                  maxHoldSeconds, or override Release
//	┌──────┐ ─────────────► ┌────────┐ ──────────────────────────────────► ┌───────┐
//	│ None │                │ Active │                                     │ Ended │
//	└──────┘ ◄───────────── └────────┘ ◄────────────────────────────────── └───────┘
//	    ▲    ready and calm      │      ready again, or maxHoldSeconds raised   │
//	    │                        │ the rule is deleted or put in dry-run, or   │
//	    │                        ▼ no longer selects the node or guards it     │
//	    │ what is due       ┌────────┐                                         │
//	    └────────────────── │ Ending │ ◄───────────────────────────────────────┘
//	      is evicted        └────────┘
//
// The record has guardedSince in all states but None, and guardEnded in Ended and Ending. Kubernetes does not repeat an
// eviction that was denied. So the leader evicts the pods that are due in Ended and Ending, and only then Ending ends.
// A frozen or suspended rule begins no guard, and its active guard continues by the record until maxHoldSeconds have
// passed, also if the rule no longer selects the node.

// leastCalm is how long a node must be ready before the eviction guard ends, if readySeconds are less. The node
// controller's last deletions come more than a second after the node is ready again, when its taint is removed.
const leastCalm = 10 * time.Second

// recordLag is how late a leader may record the end of a guard.
const recordLag = time.Minute

// HoldState is the state of a rule's eviction guard on a node.
type HoldState string

// The states of an eviction guard.
const (
	// HoldNone: the guard denies nothing.
	HoldNone HoldState = ""
	// HoldActive: evictions of the node's pods are denied.
	HoldActive HoldState = "Active"
	// HoldEnded: maxHoldSeconds have passed and the node is still not ready. Pods that are due are evicted.
	HoldEnded HoldState = "Ended"
	// HoldEnding: the rule no longer guards the node, and the node has not recovered. Pods that are due are evicted.
	HoldEnding HoldState = "Ending"
)

// Hold describes a rule's eviction guard on a node.
type Hold struct {
	State HoldState
	// Since is when the node stopped being ready. Until is when the guard ends if it is not ready again.
	Since, Until time.Time
	// Calm is when the guard ends if the node is ready again and the node controller's taint is gone.
	Calm time.Time
	// RecheckAt is when the state may change even if nothing else does. Zero means never.
	RecheckAt time.Time
	// Change is what the write of the record does to the guard: Guarded, GuardEnded, Unguarded, or empty.
	Change string
}

// Update brings the guard of a rule that is not frozen up to date, and writes it into a record. A rule in dry-run only
// ends the guard that it began before.
func (h *Hold) Update(in nodeview.Input, r *nodeview.Record) {
	if in.Rule.Mode == ruleset.DryRun {
		*h = ending(in)
	} else {
		*h = HoldOf(in)
	}
	h.Remember(in, r)
}

// HoldOf returns the state of a rule's eviction guard on a node. It depends on the raw verdict, without stabilization.
// A rule in dry-run is evaluated as if it were enforced.
func HoldOf(in nodeview.Input) Hold {
	if in.Rule.Mode == ruleset.Frozen || in.Rule.Mode == ruleset.Suspended || in.Verdict.Unknown && !in.Verdict.Booting {
		return recordedHold(in)
	}
	if !Guards(in) {
		return ending(in)
	}
	released := in.Override.Action == nodeview.OverrideRelease
	since := in.State.Record.GuardedSince.Time
	if since.IsZero() {
		// From a node that was never in service, pods are evicted only if it has a taint for that. Where a required rule
		// waits for the boot, only that taint shows that the node is not just booting. While the record does not have the
		// boot, Since moves with each heartbeat, and the guard would not end. An unreachable node has none.
		if released || in.Verdict.Ready || in.State.Rebooted && !unreachable(in.Node) ||
			(!in.State.Released || in.Verdict.Booting) && !NodeControllerEvicts(in.Node) {
			return Hold{}
		}
		since = lostAt(in)
	}
	hold := Hold{State: HoldActive, Since: since, Until: since.Add(in.Rule.Spec.EvictionGuard.MaxHold())}
	switch {
	case released && in.Verdict.Ready:
		return Hold{}
	case in.Verdict.Ready:
		return hold.recovering(in)
	case released || !in.Now.Before(hold.Until): // pods that are due are evicted
		hold.State = HoldEnded
	default:
		hold.RecheckAt = hold.Until
	}
	return hold
}

// Guards reports whether the rule guards the node's pods while it does not hold. If a guard is active when a
// bootstrap-only rule completes, it ends as usual.
func Guards(in nodeview.Input) bool {
	if in.Rule.Spec.EvictionGuard == nil || !in.State.Matches && !in.Rule.Inert() || in.Rule.Mode == ruleset.Deleting {
		return false
	}
	completed := in.Rule.Spec.BootstrapOnly() && in.State.Completed && !in.State.Rebooted
	return !completed || !in.State.Record.GuardedSince.IsZero()
}

// ending returns the state of the guard of a rule that no longer guards the node: HoldNone or HoldEnding.
func ending(in nodeview.Input) Hold {
	rec := &in.State.Record
	evicted := in.Evicted == nil || !AnyTaintEvicts(in.Node) || in.Verdict.Ready
	if rec.GuardedSince.IsZero() || evicted || in.Evicted() {
		return Hold{}
	}
	hold := Hold{State: HoldEnding, Since: rec.GuardedSince.Time, Until: rec.GuardEnded.Time}
	if hold.Until.IsZero() {
		hold.Until = in.Now
	}
	return hold
}

// recordedHold returns the state by the leader's record, if the rule cannot be evaluated. If the leader does not record
// the end, the guard ends recordLag later.
func recordedHold(in nodeview.Input) Hold {
	rec := &in.State.Record
	switch {
	case !Guards(in):
		return ending(in)
	case rec.GuardedSince.IsZero():
		return Hold{}
	}
	hold := Hold{State: HoldActive, Since: rec.GuardedSince.Time}
	hold.Until = hold.Since.Add(in.Rule.Spec.EvictionGuard.MaxHold())
	end := hold.Until
	// An unknown verdict is the leader's own, since only it lists pods, or by a condition, which the leader sees, too. For
	// rules that are not in force, it records nothing.
	if !in.Verdict.Unknown && (in.Rule.Mode == ruleset.Enforced || in.Rule.Mode == ruleset.DryRun) {
		end = end.Add(calm(in.Rule) + recordLag)
	}
	if in.Override.Action == nodeview.OverrideRelease || !rec.GuardEnded.IsZero() || !in.Now.Before(end) {
		hold.State = HoldEnded
	}
	return hold
}

// calm returns how long a node must be ready before the guard ends.
func calm(rule *ruleset.Rule) time.Duration { return max(rule.Spec.ReadyWindow(), leastCalm) }

// recovering returns the state while the node is ready again. The guard ends at Calm, because a link may flap and the
// node controller still deletes pods. If the node controller's taint is there longer, it ends after maxHoldSeconds.
func (h Hold) recovering(in nodeview.Input) Hold {
	h.Calm = in.Verdict.Since.Add(calm(in.Rule))
	switch {
	case in.Now.Before(h.Calm):
		h.RecheckAt = h.Calm
	case !NodeControllerEvicts(in.Node):
		return Hold{}
	case in.Now.Before(h.Until):
		h.RecheckAt = h.Until
	default:
		h.State = HoldEnded
	}
	return h
}

// lostAt returns when the node stopped being ready: not before the guard was added to the rule, or the node created.
// The record drops a time before the creation, which may be in the future of a clock that is behind.
func lostAt(in nodeview.Input) time.Time {
	since := in.Verdict.Since
	if in.Rule.GuardSince.After(since) {
		since = in.Rule.GuardSince
	}
	if since.After(in.Now) {
		since = in.Now
	}
	if created := in.Node.CreationTimestamp.Time; created.After(since) {
		since = created
	}
	return since.Truncate(time.Second)
}

// NodeControllerEvicts reports whether the node has a NoExecute taint of the node controller, by which pods are
// evicted from a node that is not ready.
func NodeControllerEvicts(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return OfNodeController(&t) })
}

func unreachable(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return OfNodeController(&t) && t.Key == corev1.TaintNodeUnreachable
	})
}

// AnyTaintEvicts reports whether the node has any taint that evicts pods.
func AnyTaintEvicts(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints,
		func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// OfNodeController reports whether a taint is a NoExecute taint of the node controller for nodes that are not ready.
func OfNodeController(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady ||
		t.Key == corev1.TaintNodeUnreachable)
}

// Remember writes the guard's times into a record, and sets Change.
func (h *Hold) Remember(in nodeview.Input, r *nodeview.Record) {
	switch h.State {
	case HoldNone:
		r.GuardedSince, r.GuardEnded = metav1.Time{}, metav1.Time{}
	case HoldActive:
		r.GuardedSince, r.GuardEnded = metav1.NewTime(h.Since), metav1.Time{}
	default:
		if r.GuardedSince = metav1.NewTime(h.Since); r.GuardEnded.IsZero() {
			r.GuardEnded = in.Stamp()
		}
	}
	switch was := &in.State.Record; {
	case !r.GuardEnded.IsZero() && was.GuardEnded.IsZero():
		h.Change = GuardEnded
	case !r.GuardedSince.IsZero() && (was.GuardedSince.IsZero() || !was.GuardEnded.IsZero() && r.GuardEnded.IsZero()):
		h.Change = Guarded
	case r.GuardedSince.IsZero() && !was.GuardedSince.IsZero():
		h.Change = Unguarded
	default:
		h.Change = ""
	}
}
