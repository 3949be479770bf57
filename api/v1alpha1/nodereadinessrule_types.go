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
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.spec.taint.effect`,priority=1,description="The effect of that taint"
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.nodes.matched`,description="How many nodes the rule selects"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.nodes.ready`,description="How many of them satisfy it"
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.nodes.held`,description="How many of them it holds back"
// +kubebuilder:printcolumn:name="DryRun",type=boolean,JSONPath=`.spec.dryRun`,description="Whether the rule only reports what it would do"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the rule is, or is not, in force"
// +kubebuilder:printcolumn:name="Served",type=string,JSONPath=`.status.conditions[?(@.type=="Served")].status`,description="False if a node agent, webhook or toleration that the rule needs is missing, True if its node agents and webhooks run, otherwise empty"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.spec.enforcementMode`
// +kubebuilder:selectablefield:JSONPath=`.spec.taint.key`
// +kubebuilder:selectablefield:JSONPath=`.spec.dryRun`
type NodeReadinessRule struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the rule. You can change every field at any time.
	// +required
	Spec NodeReadinessRuleSpec `json:"spec"`

	// status is what the operator reports. Its size is limited, so it lists only some nodes. "kubectl nodegate why
	// NODE" explains a single node.
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
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.taint) && has(self.requirements) && self.requirements.exists(r, has(r.noTaint) && r.noTaint.key == self.taint.key && r.noTaint.effect == self.taint.effect)) || oldSelf.hasValue() && has(oldSelf.value().taint) && has(oldSelf.value().requirements) && oldSelf.value().requirements.exists(r, has(r.noTaint) && r.noTaint.key == oldSelf.value().taint.key && r.noTaint.effect == oldSelf.value().taint.effect)",message="noTaint must not name the rule's own taint, which the rule would never remove: name the taint of another component",fieldPath=".requirements"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!has(self.podAdmission) || self.podAdmission != 'Deny' || has(self.taint) || oldSelf.hasValue() && has(oldSelf.value().podAdmission) && oldSelf.value().podAdmission == 'Deny' && !has(oldSelf.value().taint)",message="podAdmission: Deny needs a taint, since pods that tolerate it may still be bound: give spec.taint",fieldPath=".podAdmission"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.podAdmission) && self.podAdmission == 'Deny' && has(self.taint) && self.taint.effect == 'PreferNoSchedule') || oldSelf.hasValue() && has(oldSelf.value().podAdmission) && oldSelf.value().podAdmission == 'Deny' && has(oldSelf.value().taint) && oldSelf.value().taint.effect == 'PreferNoSchedule'",message="podAdmission: Deny cannot be combined with PreferNoSchedule, since the scheduler places pods that are then refused, also those that the rule waits for: use NoSchedule",fieldPath=".podAdmission"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.requirements) && self.requirements.exists(r, has(r.daemonSets)) && !(has(self.enforcementMode) && self.enforcementMode == 'bootstrap-only') && !has(self.maxUnavailable) && !(has(self.limits) && self.limits.exists(l, !has(l.per) && !has(l.withinSeconds)))) || oldSelf.hasValue() && has(oldSelf.value().requirements) && oldSelf.value().requirements.exists(r, has(r.daemonSets)) && !(has(oldSelf.value().enforcementMode) && oldSelf.value().enforcementMode == 'bootstrap-only') && !has(oldSelf.value().maxUnavailable) && !(has(oldSelf.value().limits) && oldSelf.value().limits.exists(l, !has(l.per) && !has(l.withinSeconds)))",message="daemonSets needs maxUnavailable, or an entry of limits with only max, unless enforcementMode is bootstrap-only, so that one broken DaemonSet cannot taint a fleet: give a limit, such as maxUnavailable: 10%",reason=FieldValueRequired,fieldPath=".maxUnavailable"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.requirements) && self.requirements.exists(r, has(r.daemonSets)) && !(has(self.enforcementMode) && self.enforcementMode == 'bootstrap-only') && has(self.taint) && self.taint.effect == 'NoExecute') || oldSelf.hasValue() && has(oldSelf.value().requirements) && oldSelf.value().requirements.exists(r, has(r.daemonSets)) && !(has(oldSelf.value().enforcementMode) && oldSelf.value().enforcementMode == 'bootstrap-only') && has(oldSelf.value().taint) && oldSelf.value().taint.effect == 'NoExecute'",message="daemonSets cannot be combined with a NoExecute taint unless enforcementMode is bootstrap-only, since an agent that fails would evict the pods of its node: use NoSchedule",fieldPath=".taint.effect"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.timeout) && has(self.timeout.action) && self.timeout.action == 'Replace' && !has(self.taint)) || oldSelf.hasValue() && has(oldSelf.value().timeout) && has(oldSelf.value().timeout.action) && oldSelf.value().timeout.action == 'Replace' && !has(oldSelf.value().taint)",message="action: Replace needs a taint, since pods may land on a node without one while it is handed over: give spec.taint",reason=FieldValueRequired,fieldPath=".taint"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.completionAnnotation) && has(self.timeout) && has(self.timeout.replace) && has(self.timeout.replace.annotation) && self.timeout.replace.annotation.key == self.completionAnnotation) || oldSelf.hasValue() && has(oldSelf.value().completionAnnotation) && has(oldSelf.value().timeout) && has(oldSelf.value().timeout.replace) && has(oldSelf.value().timeout.replace.annotation) && oldSelf.value().timeout.replace.annotation.key == oldSelf.value().completionAnnotation",message="must not be the key of timeout.replace.annotation, or nodes that become ready would be replaced: choose another key",fieldPath=".completionAnnotation"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.evictionGuard) && has(self.evictionGuard.endpoints) && !(has(self.conditions) && self.conditions.exists(c, c.type == 'Ready' && c.requiredStatus == 'True'))) || oldSelf.hasValue() && has(oldSelf.value().evictionGuard) && has(oldSelf.value().evictionGuard.endpoints) && !(has(oldSelf.value().conditions) && oldSelf.value().conditions.exists(c, c.type == 'Ready' && c.requiredStatus == 'True'))",message="evictionGuard.endpoints needs the condition Ready with the required status True: give it in conditions",fieldPath=".evictionGuard.endpoints"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.evictionGuard) && has(self.evictionGuard.endpoints) && has(self.conditionPolicy) && self.conditionPolicy == 'anyOf') || oldSelf.hasValue() && has(oldSelf.value().evictionGuard) && has(oldSelf.value().evictionGuard.endpoints) && has(oldSelf.value().conditionPolicy) && oldSelf.value().conditionPolicy == 'anyOf'",message="evictionGuard.endpoints cannot be combined with anyOf: evidence such as pods, which stay ready, would satisfy the rule on a node that is lost; use allOf",fieldPath=".conditionPolicy"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.maxUnavailable) && has(self.limits) && size(self.limits) > 0) || oldSelf.hasValue() && has(oldSelf.value().maxUnavailable) && has(oldSelf.value().limits) && size(oldSelf.value().limits) > 0",message="maxUnavailable is short for one entry of limits: give one of the two",fieldPath=".limits"
type NodeReadinessRuleSpec struct {
	// nodeSelector selects nodes by their labels. It must not be empty: to select all nodes, use an expression that all
	// nodes satisfy, such as kubernetes.io/os Exists. Prefer a label of your own, which the kubelet sets with
	// --node-labels. A kubelet cannot set labels under node-role.kubernetes.io/ on its own node, so a selector on these
	// never matches in the request that creates the node.
	// +required
	NodeSelector NodeSelector `json:"nodeSelector"`

	// conditions are node conditions that must have the required status, regardless of who reports them. At most 32.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []ConditionRequirement `json:"conditions,omitempty"`

	// requirements are evidence that the operator collects itself: pods, DaemonSets, CSI drivers, resources, devices,
	// expressions, and other rules. At most 30.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=30
	Requirements []Requirement `json:"requirements,omitempty"`

	// conditionPolicy: allOf, the default, requires all conditions and requirements; anyOf requires one of them.
	// +optional
	ConditionPolicy ConditionPolicy `json:"conditionPolicy,omitempty"`

	// probes are checks that the node agent runs on each node that the rule selects. Each probe publishes its result as
	// a node condition, which this or another rule can require in conditions. Probes also run while the rule is in
	// dry-run or suspended. If two rules publish the same condition on a node, only the older rule does. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MaxItems=16
	Probes []Probe `json:"probes,omitempty"`

	// taint is on each node that the rule selects while the node is not ready. The rule manages each taint with this
	// key and effect on these nodes, regardless of who added it, for example kubelet's --register-with-taints.
	// +optional
	Taint *Taint `json:"taint,omitempty"`

	// evictionGuard keeps the node controller from evicting pods while the node is not ready, and until it has been
	// ready again for readySeconds, at least ten seconds. It needs no taint.
	// +optional
	EvictionGuard *EvictionGuard `json:"evictionGuard,omitempty"`

	// podAdmission: Deny refuses to bind a pod to a held node, unless the pod tolerates the rule's taint. It needs a
	// taint with NoSchedule or NoExecute, and the webhook for bindings. None, the default, leaves pods to the scheduler.
	// +optional
	PodAdmission PodAdmissionPolicy `json:"podAdmission,omitempty"`

	// health makes the node agent answer for this rule on /health of each node that the rule selects. While the rule is
	// in dry-run, the agent does not answer for it. While it is suspended, the answer does not change.
	// +optional
	Health *Health `json:"health,omitempty"`

	// publish makes the operator report the rule's verdict as a node condition on each node that the rule selects, for
	// kubectl wait and for remediators such as Cluster API's MachineHealthCheck. The operator needs the permission to
	// write node conditions, which is not installed by default.
	// +optional
	Publish *Publish `json:"publish,omitempty"`

	// enforcementMode: with continuous, the operator adds the taint again whenever the node is no longer ready. With
	// bootstrap-only, it removes the taint once, and then ignores the node until it is re-armed (rearmOn). Required
	// with a taint.
	// +optional
	EnforcementMode EnforcementMode `json:"enforcementMode,omitempty"`

	// rearmOn lists the events after which a node is treated as new. Reboot is a changed boot ID in the node's status.
	// Evidence from before the boot does not count until the node is ready again. Empty by default.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	RearmOn []RearmEvent `json:"rearmOn,omitempty"`

	// nodeAdmission: Taint, the default, adds the taint in the request that makes a node match. With None, the operator
	// adds it a moment later.
	// +optional
	NodeAdmission NodeAdmissionPolicy `json:"nodeAdmission,omitempty"`

	// existingNodes says which nodes that are older than the rule get its taint: All (the default), Idle or None. Idle
	// means nodes outside the control plane that run only static pods, pods of DaemonSets, and pods of kube-system and
	// kube-public. The other existing nodes are exempt until they are ready for the first time. If a node already has a
	// taint with the rule's key and effect, the rule manages this taint in any case.
	// +optional
	ExistingNodes ExistingNodesPolicy `json:"existingNodes,omitempty"`

	// stabilization delays changes of the taint, so that a flapping signal does not make the taint flap.
	// +optional
	Stabilization *Stabilization `json:"stabilization,omitempty"`

	// maxUnavailable limits how many nodes in service the rule may taint at a time, so that one broken reporter cannot
	// take away a fleet. It is a number, or a percentage of the nodes in service, rounded up. 0 means that the rule
	// never taints a node in service. New nodes, which were never released, are always tainted. They do not count, nor
	// do cordoned and terminating nodes. By default there is no limit. Removing taints is never limited.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : self >= 0 && self <= 2147483647",message="must be a number from 0 to 2147483647, or a percentage such as '30%'"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// limits limit, together, how many nodes in service the rule may taint: a node is tainted only if each entry allows
	// it. An entry can count the nodes of each failure domain for itself. maxUnavailable is short for one entry that has
	// only max; it cannot be combined with limits. At most 8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Limits []Limit `json:"limits,omitempty"`

	// timeout says what happens to a node that is held for too long.
	// +optional
	Timeout *Timeout `json:"timeout,omitempty"`

	// completionAnnotation is the key of an annotation that the operator sets on a node when it releases the node for
	// the first time. The value is the time in Unix seconds. The operator removes it when the node is re-armed.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be an annotation key such as startup.k8s.io/completedAt: an optional DNS subdomain and '/', then 1-63 letters, digits, '-', '_' or '.', with a letter or digit first and last"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('nodegate.io/') && !self.startsWith('readiness.k8s.io/bootstrap-completed-')",message="annotations under nodegate.io/ and readiness.k8s.io/bootstrap-completed- are written by Nodegate itself: choose another key"
	CompletionAnnotation string `json:"completionAnnotation,omitempty"`

	// dryRun: true makes the operator only report in status.dryRunResults what the rule would do. The rule adds no
	// taint, and denies and guards nothing. The operator removes what the rule had written to nodes.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// suspend: true freezes the rule, and all rules that require it: the operator adds and removes nothing for them,
	// and no eviction guard begins. Probes still run, and the override Release still works.
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
	// readySeconds is how long the evidence must be complete without a break before the operator removes the taint.
	// Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	ReadySeconds int32 `json:"readySeconds,omitempty"`

	// unreadySeconds is how long evidence must be missing before the operator taints a node in service. The first taint
	// of a node, and the one after a reboot (rearmOn), are not delayed. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	UnreadySeconds int32 `json:"unreadySeconds,omitempty"`

	// minHoldSeconds is how long a new node is held at least, from its creation. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinHoldSeconds int32 `json:"minHoldSeconds,omitempty"`
}

// Timeout says what happens to a node that is held too long. The clock runs from the moment the taint was put
// on, or where that is not known, from the node's creation.
//
// +kubebuilder:validation:XValidation:rule="has(self.seconds) || has(self.appearSeconds)",message="give seconds, such as 900, or appearSeconds, such as 300, or both"
// +kubebuilder:validation:XValidation:rule="(has(self.action) && self.action == 'Replace') == has(self.replace)",message="action: Replace and replace belong together: give both, for example replace: {annotation: {key: example.com/replace}}, or neither"
type Timeout struct {
	// seconds is how long a node may be held.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	Seconds *int32 `json:"seconds,omitempty"`

	// appearSeconds is how long a node may be held while some evidence has never appeared, such as a condition that
	// nothing reports.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	AppearSeconds *int32 `json:"appearSeconds,omitempty"`

	// action: Keep, the default, only emits a warning event. Release also removes the taint, and the rule ignores the
	// node until it is ready once (with bootstrap-only, until it is re-armed). Replace keeps the taint, and hands the
	// node over for replacement if it was never released and runs only DaemonSet and static pods.
	// +optional
	Action TimeoutAction `json:"action,omitempty"`

	// replace says how nodes are handed over for replacement. Required with action: Replace, and allowed only with it.
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
