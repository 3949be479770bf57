// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/state"
)

// AnnotationsFull warns of nodes on which the operator cannot remember all that it should.
const AnnotationsFull = "on some nodes, the annotations have no room for the operator's record, which is shortened " +
	"or missing there; events and reasons AnnotationsFull name the nodes"

// Outcome is what a rule's status says about a node. Many nodes share one Outcome.
type Outcome struct {
	// State and Reason are for the rule's status. State is empty if the rule does not match the node.
	State  v1alpha1.NodeState
	Reason string
	// Message says what happened to a failed node.
	Message string
	// Present is whether the rule's taint is on the node.
	Present bool
	// Warning says why the rule's evidence is weaker than it looks, or is AnnotationsFull. It is usually empty.
	Warning string
	// Shared is whether an older claim decides about the rule's taint.
	Shared bool
	// Displaced names a condition of the rule, or of one of its probes, that another client publishes.
	Displaced string
	// PublishProblem says why the condition that the rule publishes could not be written. It is usually empty.
	PublishProblem string
	// Published is the status of the condition that the rule publishes. It is empty if the node lacks the condition.
	Published corev1.ConditionStatus
	// Unmarked says that the limits keep that condition from being False.
	Unmarked bool
	// WouldClaim and WouldRelease are what a rule in dry-run would do. Risky means that its evidence has never
	// appeared.
	WouldClaim, WouldRelease, Risky bool
	// Hold is what the rule's eviction guard does.
	Hold guard.HoldState

	matches bool
}

// Missing are the results of a rule's evidence on a node that is not ready.
type Missing struct {
	Results      []v1alpha1.ConditionEvaluationResult
	Requirements []v1alpha1.RequirementEvaluationResult
}

// closed reports whether the rule keeps pods off the node.
func (o *Outcome) closed() bool {
	switch o.State {
	case v1alpha1.NodeStateHeld:
		return true
	case v1alpha1.NodeStateFailed, v1alpha1.NodeStatePending:
		return o.Present
	}
	return false
}

// Sums are a rule's outcomes on all its nodes, added up.
type Sums struct {
	// Counts are over all nodes that the rule matches.
	Counts v1alpha1.NodeCounts
	// Closed is the number of nodes that the rule keeps pods off: held nodes, and nodes with the rule's taint on which
	// the rule could not be evaluated.
	Closed int32
	// Overridden is the number of nodes whose override annotation replaces the verdict.
	Overridden int
	// Shared is the number of nodes on which an older claim decides about the rule's taint.
	Shared int
	// Warning says why the rule's evidence is weaker than it looks on some node, or is AnnotationsFull. Of several it is
	// the first in alphabetical order.
	Warning string
	// Displaced is the number of nodes on which another client publishes a condition of the rule or of one of its
	// probes. DisplacedBy names it.
	Displaced   int
	DisplacedBy string
	// Published is the number of nodes with each status of the condition that the rule publishes. It is nil if the rule
	// publishes none.
	Published map[corev1.ConditionStatus]int
	// Unpublished is the number of nodes on which the condition that the rule publishes could not be written.
	// PublishProblem says why.
	Unpublished    int
	PublishProblem string
	// Guarded is the number of nodes on which the eviction guard is active. GuardEnded is the number of nodes on which
	// it has ended after its time, so that pods are evicted.
	Guarded, GuardEnded int
	// ToTaint and ToUntaint are the numbers of nodes that a dry-run would taint and untaint. Risky is the number of nodes
	// that it would hold because their evidence has never appeared.
	ToTaint, ToUntaint, Risky int
}

// sums counts all nodes of the rule by their outcomes.
func (s *ruleState) sums() Sums {
	m := Sums{}
	if s.rule.Spec.Publish != nil {
		m.Published = map[corev1.ConditionStatus]int{corev1.ConditionTrue: 0, corev1.ConditionFalse: 0,
			corev1.ConditionUnknown: 0}
	}
	for i := range s.outcomes {
		o := &s.outcomes[i]
		if o.nodes == 0 {
			continue
		}
		m.count(&o.Outcome, o.nodes)
		if o.Published != "" && m.Published != nil {
			m.Published[o.Published] += o.nodes
		}
		if o.matches && (o.Reason == state.ReasonOverrideHold || o.Reason == state.ReasonOverrideRelease) {
			m.Overridden += o.nodes
		}
		if o.Warning != "" && (m.Warning == "" || o.Warning < m.Warning) {
			m.Warning = o.Warning
		}
	}
	return m
}

func (m *Sums) count(o *Outcome, nodes int) {
	if o.Shared {
		m.Shared += nodes
	}
	if o.Displaced != "" {
		m.Displaced += nodes
		if m.DisplacedBy == "" || o.Displaced < m.DisplacedBy { // always the same of several
			m.DisplacedBy = o.Displaced
		}
	}
	if o.PublishProblem != "" {
		m.Unpublished += nodes
		if m.PublishProblem == "" || o.PublishProblem < m.PublishProblem {
			m.PublishProblem = o.PublishProblem
		}
	}
	switch o.Hold { // also of a suspended rule, on a node that it does not select any more
	case guard.HoldActive:
		m.Guarded += nodes
	case guard.HoldEnded:
		m.GuardEnded += nodes
	}
	if !o.matches {
		return
	}
	number := int32(nodes) //nolint:gosec // of nodes
	m.Counts.Matched += number
	if o.closed() {
		m.Closed += number
	}
	switch o.State {
	case v1alpha1.NodeStateReady:
		m.Counts.Ready += number
	case v1alpha1.NodeStateHeld:
		m.Counts.Held += number
	case v1alpha1.NodeStateExempt:
		m.Counts.Exempt += number
	case v1alpha1.NodeStateFailed:
		m.Counts.Failed += number
	default:
		m.Counts.Pending += number
	}
	if o.WouldClaim {
		m.ToTaint += nodes
		if o.Risky {
			m.Risky += nodes
		}
	}
	if o.WouldRelease {
		m.ToUntaint += nodes
	}
}
