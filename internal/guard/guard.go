// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const (
	// outdatedLimit is how long after a node is ready again a deletion that began before is still denied. The node
	// controller deletes the pods of a node at its own rate, and does not stop when the node is ready again.
	outdatedLimit = 5 * time.Minute
	// byTaintManager is the reason of the condition DisruptionTarget that the node controller sets on each pod before it
	// deletes it (k8s.io/kubernetes, pkg/controller/tainteviction).
	byTaintManager = "DeletionByTaintManager"
)

// Request is a request to delete a pod.
type Request struct {
	// User is the name of the user who makes the request. The caller has checked that it is a guarded user.
	User string
	// Pod is the pod as it is stored.
	Pod *corev1.Pod
	// Node is the pod's node, or nil if there is none.
	Node *corev1.Node
	// Rules are all rules.
	Rules *ruleset.Set
	// Namespace is the operator's own namespace.
	Namespace string
	Now       time.Time
}

// Decision is the answer.
type Decision struct {
	// Rule is the rule that denies the deletion, or nil if none does.
	Rule *ruleset.Rule
	// Hold is the state of the rule's guard.
	Hold Hold
	// ReadySince is when the node became ready again, if the deletion began before that. Otherwise it is zero.
	ReadySince time.Time
	// Message explains the denial to the client.
	Message string
	// Rehearsed are the rules in dry-run that would deny the deletion.
	Rehearsed []*ruleset.Rule
}

// Decide decides whether to deny a deletion.
func Decide(r *Request) Decision {
	if !guarded(r) {
		return Decision{}
	}
	var out Decision
	for _, rule := range r.Rules.All() {
		if rule.Spec.EvictionGuard == nil {
			continue
		}
		d, denies := decide(rule, r)
		switch {
		case !denies:
		case rule.Mode == ruleset.DryRun:
			out.Rehearsed = append(out.Rehearsed, rule)
		case out.Rule == nil:
			d.Rehearsed = out.Rehearsed
			out = d
		}
	}
	return out
}

// guarded reports whether a rule may deny the deletion. Some deletions are never denied, regardless of the rules.
func guarded(r *Request) bool {
	pod, node := r.Pod, r.Node
	switch {
	case pod == nil || node == nil || pod.Spec.NodeName != node.Name || node.DeletionTimestamp != nil:
		return false
	case pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return false
	case r.Namespace != "" && pod.Namespace == r.Namespace:
		return false
	case r.User == ControllerManager && Announced(pod) == nil: // it is another controller, which must not be stopped
		return false
	}
	if o, _ := nodeview.OverrideOf(pod, r.Now); o.Action == nodeview.OverrideRelease {
		return false
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService || evictsOtherwise(&t, r)
	})
}

// evictsOtherwise reports whether a taint evicts the pod for another reason than that the node is not ready: a user has
// added it for that purpose.
func evictsOtherwise(t *corev1.Taint, r *Request) bool {
	if t.Effect != corev1.TaintEffectNoExecute || OfNodeController(t) || r.Rules.Manager(t) != nil {
		return false
	}
	toleration := evidence.Toleration(r.Pod.Spec.Tolerations, t)
	return toleration == nil || toleration.TolerationSeconds != nil
}

func decide(rule *ruleset.Rule, r *Request) (Decision, bool) {
	in := inputOf(rule, r.Node, r.Now)
	if !Guards(in) {
		return Decision{}, false
	}
	d := Decision{Rule: rule, Hold: hold(&in)}
	switch {
	case d.Hold.State == HoldActive && in.Verdict.Ready:
		d.Message = denial(rule, r, "has not been ready again for long enough, or still has the taint of the node controller")
	case d.Hold.State == HoldActive:
		why := ""
		if ByNodeAlone(rule) {
			why = ": " + in.Verdict.Blocking()
		}
		d.Message = denial(rule, r, fmt.Sprintf("is not ready%s; its pods are guarded until %s", why,
			d.Hold.Until.UTC().Format(time.RFC3339)))
	case d.Hold.State == HoldNone && outdated(rule, r, in):
		d.ReadySince = in.Verdict.Since
		d.Message = denial(rule, r, fmt.Sprintf("has been ready again since %s, after this eviction began",
			in.Verdict.Since.UTC().Format(time.RFC3339)))
	default:
		return Decision{}, false
	}
	return d, true
}

// HoldOn returns the state of a rule's guard on a node, evaluated from the node alone.
func HoldOn(rule *ruleset.Rule, node *corev1.Node, now time.Time) Hold {
	in := inputOf(rule, node, now)
	ended := !in.State.Record.GuardEnded.IsZero()
	in.Evicted = func() bool { return !ended } // until the leader has recorded the end
	h := hold(&in)
	if rule.Mode == ruleset.DryRun {
		return ending(in) // by the verdict that hold has filled in: if the node is ready, nothing is evicted
	}
	return h
}

// inputOf returns what the node alone tells.
func inputOf(rule *ruleset.Rule, node *corev1.Node, now time.Time) nodeview.Input {
	in := nodeview.Input{Rule: rule, Node: node, State: nodeview.StateOf(rule, node, now), Now: now}
	in.Override, _ = nodeview.OverrideOf(node, now) // an invalid override is none
	return in
}

// hold returns the state of the guard, and fills in the verdict, if the node alone tells whether it is ready.
// Otherwise it returns the state by the record, which has what the leader remembers. Nothing is remembered here from
// one request to the next: if the evidence does not tell since when the node is ready again, that would always be now,
// and the guard would never end. Nor does the evidence tell if the node's clock is wrong, so that the node was ready
// before the leader saw that it was not.
func hold(in *nodeview.Input) Hold {
	if !ByNodeAlone(in.Rule) {
		return recordedHold(*in)
	}
	facts := &evidence.Facts{Node: in.Node, Boot: in.State.Boot}
	in.Verdict = readiness.Evaluate(in.Rule, facts, readiness.Observed{}, in.Now)
	h := HoldOf(*in)
	if in.Verdict.Ready && (h.State == HoldActive && in.Verdict.Remembered ||
		in.Verdict.Since.Before(in.State.Record.GuardedSince.Time)) {
		return recordedHold(*in)
	}
	return h
}

// ByNodeAlone reports whether the node alone tells whether it is ready. Only the leader gathers other
// evidence, and the guard of a frozen rule continues by its record.
func ByNodeAlone(rule *ruleset.Rule) bool {
	return !rule.Inert() && !slices.ContainsFunc(rule.Requirements, func(q evidence.Requirement) bool {
		return q.Origin() != evidence.OnNode
	})
}

// outdated reports whether a deletion began before the node was ready again, and no taint of the node evicts the pod
// now. Only conditions tell how long ago that was. If their times do not, the start of the deletion is the bound.
func outdated(rule *ruleset.Rule, r *Request, in nodeview.Input) bool {
	began := Announced(r.Pod)
	if began == nil || !in.Verdict.Ready || len(rule.Requirements) > 0 ||
		in.Override.Action == nodeview.OverrideRelease {
		return false
	}
	_, evicts := Due(r.Pod, r.Node.Spec.Taints)
	return !evicts && !began.LastTransitionTime.After(in.Verdict.Since) &&
		in.Now.Sub(in.Verdict.Since) < outdatedLimit &&
		in.Now.Sub(began.LastTransitionTime.Time) < rule.Spec.EvictionGuard.MaxHold()+outdatedLimit
}

// Announced returns the condition by which the node controller announces that it is about to delete the pod, or nil if
// the pod does not have it.
func Announced(pod *corev1.Pod) *corev1.PodCondition {
	c := condition.OfPod(pod, corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason != byTaintManager {
		return nil
	}
	return c
}

func denial(rule *ruleset.Rule, r *Request, why string) string {
	return fmt.Sprintf("the eviction guard of rule %s does not let user %s delete pod %s/%s: node %s %s; to allow it, "+
		"annotate the node or the pod with %s=Release",
		rule.Name, r.User, r.Pod.Namespace, r.Pod.Name, r.Node.Name, why, v1alpha1.OverrideAnnotation)
}
