// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of a rule's status. With them it stays under 64 KiB for any fleet, and under 96 KiB with 100 failure domains.
const (
	// MaxStatusNodes is how many entries the three lists of nodes in a status have together at most.
	MaxStatusNodes = 50
	// MaxStatusNodesBytes is how large, as JSON, the three lists of nodes together are at most.
	MaxStatusNodesBytes = 24 << 10
	// MaxStatusMessage is how long, in bytes, a message in a status is at most.
	MaxStatusMessage = 512
)

// NodeReadinessRuleStatus is what Nodegate reports about a rule.
type NodeReadinessRuleStatus struct {
	// observedGeneration is the metadata.generation of the rule that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (the rule is valid and in force), NodesReady (all nodes that the rule selects are ready),
	// Enforcing (the rule holds nodes that are not ready), Conflicted (an older rule has the same taint, or a condition
	// that the rule would publish is taken), BudgetExhausted (limits keep nodes from being held or published as False),
	// with an evictionGuard Guarding (evictions are denied while a node is not ready), with publish Publishing (the
	// verdict is written as a condition of nodes), with timeout.action: Replace Replacing (nodes that never become ready
	// are handed over), and for fields that need node agents or admission Served (these run in the cluster).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// nodes counts the nodes that the rule selects.
	// +optional
	Nodes *NodeCounts `json:"nodes,omitempty"`

	// inForce says since when, and for which selector, the rule is in force. Older nodes are existing nodes.
	// +optional
	InForce *InForce `json:"inForce,omitempty"`

	// limit is the use of maxUnavailable or limits. It is absent for a rule without a limit, and for one that is in
	// dry-run or suspended.
	// +optional
	Limit *LimitStatus `json:"limit,omitempty"`

	// rate has the times that limits with withinSeconds count.
	// +optional
	Rate *RateStatus `json:"rate,omitempty"`

	// appliedNodes are names of nodes that the rule selects, held and failed ones first.
	// +optional
	// +listType=atomic
	AppliedNodes []string `json:"appliedNodes,omitempty"`

	// failedNodes are nodes that the operator could not update for this rule.
	// +optional
	// +listType=atomic
	FailedNodes []NodeFailure `json:"failedNodes,omitempty"`

	// nodeEvaluations are the verdicts of some nodes, held ones first.
	// +optional
	// +listType=atomic
	NodeEvaluations []NodeEvaluation `json:"nodeEvaluations,omitempty"`

	// truncated reports whether appliedNodes, failedNodes and nodeEvaluations leave out nodes: together they have at
	// most 50 entries and 24 KiB. nodes counts all.
	// +optional
	Truncated bool `json:"truncated,omitempty"`

	// replacements are the nodes that the rule has handed over for replacement.
	// +optional
	Replacements *ReplacementStatus `json:"replacements,omitempty"`

	// dryRunResults says what the rule would do. Present while dryRun is true.
	// +optional
	DryRunResults *DryRunResults `json:"dryRunResults,omitempty"`
}

// NodeCounts counts the nodes that a rule matches: matched is the sum of all others.
type NodeCounts struct {
	// matched is how many nodes the rule's selector matches.
	Matched int32 `json:"matched"`
	// ready is how many of them are ready, or have completed a bootstrap-only rule.
	Ready int32 `json:"ready"`
	// held is how many of them the rule holds.
	Held int32 `json:"held"`
	// exempt is how many of them are not ready, but not held: existing nodes, nodes over maxUnavailable, timed out and
	// overridden nodes, and all of them while the rule is suspended, in dry-run or not in force.
	Exempt int32 `json:"exempt"`
	// failed is how many of them the operator could not update.
	Failed int32 `json:"failed"`
	// pending is how many of them the operator has not evaluated yet.
	Pending int32 `json:"pending"`
}

// InForce says since when a rule is in force.
type InForce struct {
	// startTime is when the rule was last put in force: when it was created, when dry-run or suspension ended, when its
	// selector changed, or when the operator first saw it, if it had been edited before.
	StartTime metav1.Time `json:"startTime"`
	// selectorHash identifies the selector.
	// +kubebuilder:validation:MaxLength=64
	SelectorHash string `json:"selectorHash"`
}

// LimitStatus says which nodes use a place of maxUnavailable.
type LimitStatus struct {
	// inUse is how many nodes in service the rule holds, together with other nodes on which the condition that the rule
	// publishes is False.
	InUse int32 `json:"inUse"`
	// deleted is how many of such nodes were deleted, and still count: until a new node becomes ready under the rule for
	// each, or until an hour after the last deletion no node waits for the limit.
	Deleted int32 `json:"deleted"`
	// lastDeletionTime is when the last of these nodes was deleted.
	// +optional
	LastDeletionTime *metav1.Time `json:"lastDeletionTime,omitempty"`
	// domains are the failure domains, for limits with per, in which places are in use or nodes wait, and the nodes
	// without the label. Those with deleted nodes come first. At most 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Domains []DomainStatus `json:"domains,omitempty"`
}

// NodeFailure is a node on which a rule could not be carried out.
type NodeFailure struct {
	// nodeName is the node.
	NodeName string `json:"nodeName"`
	// reason is a word in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says what happened.
	// +optional
	// +kubebuilder:validation:MaxLength=10240
	Message string `json:"message,omitempty"`
	// lastEvaluationTime is when this entry last changed.
	LastEvaluationTime metav1.Time `json:"lastEvaluationTime"`
}

// NodeEvaluation is the verdict of one node.
type NodeEvaluation struct {
	// nodeName is the node.
	NodeName string `json:"nodeName"`
	// conditionResults are the rule's conditions on the node.
	// +optional
	// +listType=atomic
	ConditionResults []ConditionEvaluationResult `json:"conditionResults,omitempty"`
	// requirementResults are the rule's requirements on the node.
	// +optional
	// +listType=atomic
	RequirementResults []RequirementEvaluationResult `json:"requirementResults,omitempty"`
	// taintStatus says whether the rule's taint is on the node.
	// +optional
	TaintStatus TaintStatus `json:"taintStatus,omitempty"`
	// state is the state of the node under the rule: Ready, Held, Exempt, Failed or Pending.
	// +optional
	State NodeState `json:"state,omitempty"`
	// reason is a word in CamelCase that says why.
	// +optional
	Reason string `json:"reason,omitempty"`
	// lastEvaluationTime is when this entry last changed.
	LastEvaluationTime metav1.Time `json:"lastEvaluationTime"`
}

// ConditionEvaluationResult is one condition as found on a node.
type ConditionEvaluationResult struct {
	// type is the condition's type.
	Type string `json:"type"`
	// currentStatus is the status that counts. It is Unknown for a condition that is missing or stale, or whose status is
	// none of True, False and Unknown.
	CurrentStatus ConditionStatus `json:"currentStatus"`
	// requiredStatus is the status that the rule requires.
	RequiredStatus ConditionStatus `json:"requiredStatus"`
	// defaultStatus is the status that counts because the node does not have the condition.
	// +optional
	DefaultStatus ConditionStatus `json:"defaultStatus,omitempty"`
}

// RequirementEvaluationResult is one requirement as found.
type RequirementEvaluationResult struct {
	// name is the requirement's name.
	Name string `json:"name"`
	// satisfied reports whether the requirement is met.
	Satisfied bool `json:"satisfied"`
	// message explains the result.
	// +optional
	// +kubebuilder:validation:MaxLength=10240
	Message string `json:"message,omitempty"`
}

// TaintStatus says whether a taint is on a node.
// +kubebuilder:validation:Enum=Present;Absent
type TaintStatus string

const (
	// TaintPresent means that the taint is on the node.
	TaintPresent TaintStatus = "Present"
	// TaintAbsent means that it is not.
	TaintAbsent TaintStatus = "Absent"
)

// NodeState is what a node is to a rule.
// +kubebuilder:validation:Enum=Ready;Held;Exempt;Failed;Pending
type NodeState string

// The states of a node under a rule; NodeCounts counts them.
const (
	NodeStateReady   NodeState = "Ready"
	NodeStateHeld    NodeState = "Held"
	NodeStateExempt  NodeState = "Exempt"
	NodeStateFailed  NodeState = "Failed"
	NodeStatePending NodeState = "Pending"
)

// DryRunResults says what a rule would do, were it enforced now.
type DryRunResults struct {
	// startTime is when the rule was put in dry-run, as the operator saw it, by the API server's clock. Nodes that
	// were created before are its existing nodes.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// affectedNodes is how many nodes the rule selects.
	// +optional
	AffectedNodes *int32 `json:"affectedNodes,omitempty"`
	// taintsToAdd is how many nodes would get the taint.
	// +optional
	TaintsToAdd *int32 `json:"taintsToAdd,omitempty"`
	// taintsToRemove is how many nodes would lose it.
	// +optional
	TaintsToRemove *int32 `json:"taintsToRemove,omitempty"`
	// riskyOperations is how many nodes would be held because some evidence was never reported.
	// +optional
	RiskyOperations *int32 `json:"riskyOperations,omitempty"`
	// nodesToTaint are names of nodes that would get the taint. At most 10.
	// +optional
	// +listType=atomic
	NodesToTaint []string `json:"nodesToTaint,omitempty"`
	// nodesToUntaint are names of nodes that would lose it. At most 10.
	// +optional
	// +listType=atomic
	NodesToUntaint []string `json:"nodesToUntaint,omitempty"`
	// summary is the result in one sentence.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Summary string `json:"summary,omitempty"`
}
