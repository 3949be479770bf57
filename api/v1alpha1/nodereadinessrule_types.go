// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodeReadinessRule says what "ready" means for a set of nodes, and what happens to them while it does not hold.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nrr
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.enforcementMode`,description="continuous or bootstrap-only"
// +kubebuilder:printcolumn:name="Taint",type=string,JSONPath=`.spec.taint.key`,description="The key of the taint on nodes that are not ready"
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.spec.taint.effect`,description="The effect of that taint"
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.nodes.matched`,description="How many nodes the rule selects"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.nodes.ready`,description="How many of them satisfy it"
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.nodes.held`,description="How many of them it holds back"
// +kubebuilder:printcolumn:name="DryRun",type=boolean,JSONPath=`.spec.dryRun`,description="Whether the rule only reports what it would do"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why the rule is, or is not, in force"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.spec.enforcementMode`
// +kubebuilder:selectablefield:JSONPath=`.spec.taint.key`
// +kubebuilder:selectablefield:JSONPath=`.spec.dryRun`
type NodeReadinessRule struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the author of the rule asks for. Every field may be changed at any time.
	// +required
	Spec NodeReadinessRuleSpec `json:"spec"`

	// status is what Nodegate reports. It is bounded: for one node's whole story see that node.
	// +optional
	Status NodeReadinessRuleStatus `json:"status,omitzero"`
}

// NodeReadinessRuleList is a list of rules.
//
// +kubebuilder:object:root=true
type NodeReadinessRuleList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the rules.
	Items []NodeReadinessRule `json:"items"`
}

// NodeReadinessRuleSpec says which nodes (nodeSelector), what must hold (conditions, requirements), what happens
// while it does not (taint, evictionGuard, podAdmission, health, publish), and how (the rest).
//
// A rule about several fields lets an object pass that already broke it, so that such an object can still be
// edited, suspended or repaired one field at a time.
//
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="has(self.conditions) && size(self.conditions) > 0 || has(self.requirements) && size(self.requirements) > 0 || oldSelf.hasValue() && !(has(oldSelf.value().conditions) && size(oldSelf.value().conditions) > 0 || has(oldSelf.value().requirements) && size(oldSelf.value().requirements) > 0)",message="a rule needs evidence: give at least one entry in conditions or requirements"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="has(self.taint) || has(self.evictionGuard) || has(self.health) || has(self.publish) || has(self.podAdmission) && self.podAdmission == 'Deny' || oldSelf.hasValue() && !(has(oldSelf.value().taint) || has(oldSelf.value().evictionGuard) || has(oldSelf.value().health) || has(oldSelf.value().publish) || has(oldSelf.value().podAdmission) && oldSelf.value().podAdmission == 'Deny')",message="a rule needs an effect: give at least one of taint, evictionGuard, health, publish, or podAdmission: Deny"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!has(self.taint) || has(self.enforcementMode) || oldSelf.hasValue() && has(oldSelf.value().taint) && !has(oldSelf.value().enforcementMode)",message="enforcementMode is required with a taint: continuous or bootstrap-only",reason=FieldValueRequired,fieldPath=".enforcementMode"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!has(self.enforcementMode) || self.enforcementMode != 'bootstrap-only' || !has(self.conditionPolicy) || self.conditionPolicy != 'anyOf' || oldSelf.hasValue() && has(oldSelf.value().enforcementMode) && oldSelf.value().enforcementMode == 'bootstrap-only' && has(oldSelf.value().conditionPolicy) && oldSelf.value().conditionPolicy == 'anyOf'",message="anyOf cannot be combined with bootstrap-only: the first of several signals would complete the bootstrap for ever; use allOf, or enforcementMode: continuous",fieldPath=".conditionPolicy"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!has(self.enforcementMode) || self.enforcementMode != 'bootstrap-only' || !has(self.conditions) || self.conditions.all(c, !has(c.defaultStatus)) || oldSelf.hasValue() && has(oldSelf.value().enforcementMode) && oldSelf.value().enforcementMode == 'bootstrap-only' && has(oldSelf.value().conditions) && oldSelf.value().conditions.exists(c, has(c.defaultStatus))",message="defaultStatus cannot be combined with bootstrap-only: a node without the condition would complete the bootstrap for ever; remove defaultStatus, or use enforcementMode: continuous",fieldPath=".conditions"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!has(self.podAdmission) || self.podAdmission != 'Deny' || has(self.taint) || oldSelf.hasValue() && has(oldSelf.value().podAdmission) && oldSelf.value().podAdmission == 'Deny' && !has(oldSelf.value().taint)",message="podAdmission: Deny needs a taint, since pods that tolerate it may still be bound: give spec.taint",fieldPath=".podAdmission"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.requirements) && self.requirements.exists(r, has(r.daemonSets)) && !(has(self.enforcementMode) && self.enforcementMode == 'bootstrap-only') && !has(self.maxUnavailable)) || oldSelf.hasValue() && has(oldSelf.value().requirements) && oldSelf.value().requirements.exists(r, has(r.daemonSets)) && !(has(oldSelf.value().enforcementMode) && oldSelf.value().enforcementMode == 'bootstrap-only') && !has(oldSelf.value().maxUnavailable)",message="daemonSets needs maxUnavailable unless enforcementMode is bootstrap-only, so that one broken DaemonSet cannot taint a fleet: give a limit, such as maxUnavailable: 10%",reason=FieldValueRequired,fieldPath=".maxUnavailable"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.requirements) && self.requirements.exists(r, has(r.daemonSets)) && !(has(self.enforcementMode) && self.enforcementMode == 'bootstrap-only') && has(self.taint) && self.taint.effect == 'NoExecute') || oldSelf.hasValue() && has(oldSelf.value().requirements) && oldSelf.value().requirements.exists(r, has(r.daemonSets)) && !(has(oldSelf.value().enforcementMode) && oldSelf.value().enforcementMode == 'bootstrap-only') && has(oldSelf.value().taint) && oldSelf.value().taint.effect == 'NoExecute'",message="daemonSets cannot be combined with a NoExecute taint unless enforcementMode is bootstrap-only, since an agent that fails would evict the pods of its node: use NoSchedule",fieldPath=".taint.effect"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.timeout) && has(self.timeout.action) && self.timeout.action == 'Replace' && !has(self.taint)) || oldSelf.hasValue() && has(oldSelf.value().timeout) && has(oldSelf.value().timeout.action) && oldSelf.value().timeout.action == 'Replace' && !has(oldSelf.value().taint)",message="action: Replace needs a taint, since pods may land on a node without one while it is handed over: give spec.taint",reason=FieldValueRequired,fieldPath=".taint"
type NodeReadinessRuleSpec struct {
	// nodeSelector selects the nodes that the rule is about, by their labels. It must not be empty: a rule for
	// all nodes says so with an expression that all nodes satisfy, such as kubernetes.io/os Exists. Kubelets cannot
	// set labels under node-role.kubernetes.io/ on themselves, so a selector on those never matches in the
	// request that creates the node: prefer a label of your own, given to the kubelet with --node-labels.
	// +required
	NodeSelector NodeSelector `json:"nodeSelector"`

	// conditions are node conditions that must have the required status, regardless of who reports them. At most 32.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []ConditionRequirement `json:"conditions,omitempty"`

	// requirements are evidence that needs no reporter on the node: pods, DaemonSets, CSI drivers, resources, devices,
	// expressions, and other rules. At most 30.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=30
	Requirements []Requirement `json:"requirements,omitempty"`

	// conditionPolicy says whether all of the conditions and requirements must hold (allOf, the default) or one
	// of them suffices (anyOf).
	// +optional
	ConditionPolicy ConditionPolicy `json:"conditionPolicy,omitempty"`

	// probes are run by the node agent on each node that the rule matches; each publishes its result as a node
	// condition, which conditions may then require. They are evidence: they run in dry-run and while suspended, too. Of
	// two rules that publish one condition on a node the older one does. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MaxItems=16
	Probes []Probe `json:"probes,omitempty"`

	// taint stands on each node that the rule matches while the rule does not hold there. Taints are told apart
	// by key and effect. On the nodes that it matches, the rule manages a taint of this key and effect
	// regardless of who added it, for example kubelet's --register-with-taints.
	// +optional
	Taint *Taint `json:"taint,omitempty"`

	// evictionGuard keeps pods from being evicted by the node controller while the rule does not hold, and until it has
	// held again for readySeconds, at least ten seconds. It needs no taint.
	// +optional
	EvictionGuard *EvictionGuard `json:"evictionGuard,omitempty"`

	// podAdmission: Deny refuses to bind a pod to a node that the rule holds, unless the pod tolerates the rule's
	// taint, which it needs. None, the default, leaves that to the scheduler. It takes effect where the webhook for
	// bindings is installed.
	// +optional
	PodAdmission PodAdmissionPolicy `json:"podAdmission,omitempty"`

	// health makes the node agent answer for this rule on /health of each node that it matches. Not while the rule is in
	// dry-run. While it is suspended its verdict stays as it is.
	// +optional
	Health *Health `json:"health,omitempty"`

	// publish makes the operator keep the verdict as a node condition on each node that the rule matches, for kubectl wait
	// and for remediators such as Cluster API's MachineHealthCheck. It takes effect where the permission to write node
	// conditions is installed.
	// +optional
	Publish *Publish `json:"publish,omitempty"`

	// enforcementMode: continuous puts the taint back whenever the rule ceases to hold; bootstrap-only takes it off
	// once and leaves the node alone from then on, until it is re-armed (rearmOn). Required with a taint.
	// +optional
	EnforcementMode EnforcementMode `json:"enforcementMode,omitempty"`

	// rearmOn lists the events that start a node over, as if it had just joined: Reboot is a changed boot ID in
	// the node's status. Until the rule holds again, evidence from before the boot does not count. Empty by default.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	RearmOn []RearmEvent `json:"rearmOn,omitempty"`

	// nodeAdmission: Taint, the default, adds the taint in the same request that makes a node match; None leaves
	// it to the controller, which follows a moment later.
	// +optional
	NodeAdmission NodeAdmissionPolicy `json:"nodeAdmission,omitempty"`

	// existingNodes says which of the nodes that were there before the rule was put in force get its taint: All (the
	// default), Idle (those that run no pods but those of DaemonSets, static ones, and those of kube-system and
	// kube-public; never a node of the control plane), or None. A node that is left out is exempt until it has been ready
	// once, and a usual node from then on. A taint of the rule's key and effect that a node already carries is managed in
	// any case.
	// +optional
	ExistingNodes ExistingNodesPolicy `json:"existingNodes,omitempty"`

	// stabilization delays the verdict, so that a flapping signal does not flap the taint.
	// +optional
	Stabilization *Stabilization `json:"stabilization,omitempty"`

	// maxUnavailable limits how many released nodes the rule may taint again at a time: a number, or a percentage
	// of them, rounded up. So one broken reporter cannot take a whole fleet away. Nodes that were never released are
	// always held and do not count, nor do cordoned and terminating nodes. 0 means that a released node is never
	// tainted again. Without the field there is no limit. Removing taints is never limited.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : self >= 0 && self <= 2147483647",message="must be a number from 0 to 2147483647, or a percentage such as '30%'"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// timeout says what happens to a node that is held too long.
	// +optional
	Timeout *Timeout `json:"timeout,omitempty"`

	// completionAnnotation is the key of an annotation that is set on the node, to the time in unix seconds, in the
	// same write that releases it for the first time, and removed when the node is re-armed.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be an annotation key such as startup.k8s.io/completedAt: an optional DNS subdomain and '/', then 1-63 letters, digits, '-', '_' or '.', with a letter or digit first and last"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('readiness.node.x-k8s.io/') && !self.startsWith('readiness.k8s.io/bootstrap-completed-')",message="annotations under readiness.node.x-k8s.io/ and readiness.k8s.io/bootstrap-completed- are written by Nodegate itself: choose another key"
	CompletionAnnotation string `json:"completionAnnotation,omitempty"`

	// dryRun: true evaluates the rule and reports in status.dryRunResults what it would do. Nothing is tainted,
	// denied or guarded, and what the rule had put on nodes goes.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// suspend: true freezes the rule and all rules that require it: nothing of them is added to a node or removed, and no
	// eviction guard begins. Probes go on, and the override Release still acts.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// EnforcementMode says for how long a rule is enforced on a node.
// +kubebuilder:validation:Enum=bootstrap-only;continuous
type EnforcementMode string

const (
	// EnforcementModeBootstrapOnly enforces until the rule has held once.
	EnforcementModeBootstrapOnly EnforcementMode = "bootstrap-only"
	// EnforcementModeContinuous enforces for as long as the node exists.
	EnforcementModeContinuous EnforcementMode = "continuous"
)

// ConditionPolicy says how pieces of evidence are combined.
// +kubebuilder:validation:Enum=allOf;anyOf
type ConditionPolicy string

const (
	// ConditionPolicyAllOf means that every piece of evidence must hold.
	ConditionPolicyAllOf ConditionPolicy = "allOf"
	// ConditionPolicyAnyOf means that one piece of evidence suffices.
	ConditionPolicyAnyOf ConditionPolicy = "anyOf"
)

// RearmEvent is an event that starts a node over.
// +kubebuilder:validation:Enum=Reboot
type RearmEvent string

// RearmOnReboot re-arms when the boot ID in the node's status changes.
const RearmOnReboot RearmEvent = "Reboot"

// NodeAdmissionPolicy says what happens in the request that makes a node match.
// +kubebuilder:validation:Enum=Taint;None
type NodeAdmissionPolicy string

const (
	// NodeAdmissionTaint stores the node with the rule's taint.
	NodeAdmissionTaint NodeAdmissionPolicy = "Taint"
	// NodeAdmissionNone leaves the request alone.
	NodeAdmissionNone NodeAdmissionPolicy = "None"
)

// ExistingNodesPolicy says which nodes that were there before the rule get its taint.
// +kubebuilder:validation:Enum=All;Idle;None
type ExistingNodesPolicy string

const (
	// ExistingNodesAll taints every matching node that is not ready.
	ExistingNodesAll ExistingNodesPolicy = "All"
	// ExistingNodesIdle taints only nodes that run no user pods.
	ExistingNodesIdle ExistingNodesPolicy = "Idle"
	// ExistingNodesNone exempts them until they have been ready once.
	ExistingNodesNone ExistingNodesPolicy = "None"
)

// PodAdmissionPolicy says whether pods may be bound to held nodes.
// +kubebuilder:validation:Enum=None;Deny
type PodAdmissionPolicy string

const (
	// PodAdmissionNone refuses nothing.
	PodAdmissionNone PodAdmissionPolicy = "None"
	// PodAdmissionDeny refuses pods that do not tolerate the rule's taint.
	PodAdmissionDeny PodAdmissionPolicy = "Deny"
)

// Stabilization delays verdicts. A restart of the operator may lengthen a window, never shorten it.
type Stabilization struct {
	// readySeconds is for how long the evidence must hold without a break before the taint goes. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	ReadySeconds int32 `json:"readySeconds,omitempty"`

	// unreadySeconds is for how long the evidence must be missing before a node that was released gets the taint
	// again. A node's first taint and the one after a reboot (rearmOn) are never delayed. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	UnreadySeconds int32 `json:"unreadySeconds,omitempty"`

	// minimumHoldSeconds is for how long, counted from the node's creation, a node is held even if it is ready
	// earlier. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinimumHoldSeconds int32 `json:"minimumHoldSeconds,omitempty"`
}

// Timeout says what happens to a node that is held too long. The clock runs from the moment the taint was put
// on, or where that is not known, from the node's creation.
//
// +kubebuilder:validation:XValidation:rule="has(self.seconds) || has(self.appearSeconds)",message="give seconds, such as 900, or appearSeconds, such as 300, or both"
// +kubebuilder:validation:XValidation:rule="(has(self.action) && self.action == 'Replace') == has(self.replace)",message="action: Replace and replace belong together: give both, for example replace: {annotation: {key: example.com/replace}}, or neither"
type Timeout struct {
	// seconds is for how long a node may be held.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	Seconds *int32 `json:"seconds,omitempty"`

	// appearSeconds is for how long a node may be held while a piece of evidence has not appeared at all, such as
	// a condition that is not reported.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	AppearSeconds *int32 `json:"appearSeconds,omitempty"`

	// action: Keep, the default, only says so by a warning event; Release also takes the taint off, and leaves the
	// node alone until the rule has held once (with bootstrap-only: until it is re-armed). Replace keeps the node held,
	// and hands it over for replacement if it was never released and runs only DaemonSet and static pods.
	// +optional
	Action TimeoutAction `json:"action,omitempty"`

	// replace says how nodes are handed over. Required with action: Replace, and only allowed there.
	// +optional
	Replace *Replace `json:"replace,omitempty"`
}

// TimeoutAction says what a timeout does.
// +kubebuilder:validation:Enum=Keep;Release;Replace
type TimeoutAction string

const (
	// TimeoutActionKeep keeps the node held.
	TimeoutActionKeep TimeoutAction = "Keep"
	// TimeoutActionRelease opens the gate.
	TimeoutActionRelease TimeoutAction = "Release"
	// TimeoutActionReplace keeps the node held and hands it over for replacement.
	TimeoutActionReplace TimeoutAction = "Replace"
)
