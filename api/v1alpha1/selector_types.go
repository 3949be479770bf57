// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeSelector is a label selector over nodes. Its JSON is that of metav1.LabelSelector; its sizes are bounded,
// so that the API server can check its grammar. Server-side apply replaces it as a whole, as it does label selectors:
// merged selectors of two appliers would select what neither of them wants.
//
// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="must select something: give matchLabels or matchExpressions (all nodes: key kubernetes.io/os, operator Exists)"
// +structType=atomic
type NodeSelector struct {
	// matchLabels are labels that a node must have. At most 64.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="every key must be a label key such as example.com/pool: an optional DNS subdomain and '/', then 1-63 letters, digits, '-', '_' or '.', with a letter or digit first and last"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements on the labels of a node, which must all be met. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions,omitempty"`
}

// PodSelector is a label selector over pods. Its JSON is that of metav1.LabelSelector; its sizes are bounded, so that
// the API server can check its grammar. Server-side apply replaces it as a whole.
//
// +structType=atomic
type PodSelector struct {
	// matchLabels are labels that an object must have. At most 16.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="every key must be a label key such as example.com/pool: an optional DNS subdomain and '/', then 1-63 letters, digits, '-', '_' or '.', with a letter or digit first and last"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements on the labels of an object, which must all be met. At most 4.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches(r'^([^\\W_]([-\\w.]*[^\\W_])?)?$')",message="must be empty, or letters, digits, '-', '_' or '.', with a letter or digit first and last"
type LabelValue string

// NodeSelectorRequirement is one requirement on the labels of a node, or of a pod.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",message="In and NotIn need values; Exists and DoesNotExist take none",fieldPath=".values"
type NodeSelectorRequirement struct {
	// key is the label's key.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a label key such as example.com/pool: an optional DNS subdomain and '/', then 1-63 letters, digits, '-', '_' or '.', with a letter or digit first and last"
	Key string `json:"key"`

	// operator is In, NotIn, Exists or DoesNotExist. An object without the label satisfies NotIn.
	// +required
	Operator NodeSelectorOperator `json:"operator"`

	// values are the values for In and NotIn. At most 256.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Values []LabelValue `json:"values,omitempty"`
}

// NodeSelectorOperator relates a label to values.
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
type NodeSelectorOperator string

// Taint is a taint on nodes. Its JSON is that of the core type; its sizes are bounded, so that the API server can
// check its grammar.
type Taint struct {
	// key is the taint's key, a qualified name. Keys that belong to Kubernetes itself (node.kubernetes.io/,
	// node.cloudprovider.kubernetes.io/, node-role.kubernetes.io/) are refused. Karpenter treats keys under
	// readiness.k8s.io/ as startup taints; cluster-autoscaler those under
	// startup-taint.cluster-autoscaler.kubernetes.io/ and what its --startup-taint-prefix names.
	// ---
	// Kubernetes 1.32 fails to evaluate lastIndexOf of an empty string.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.indexOf('/') == self.lastIndexOf('/')",message="a taint key with a prefix must have exactly one '/' separator, such as readiness.k8s.io/NetworkReady"
	// +kubebuilder:validation:XValidation:rule="!self.contains('/') || !format.dns1123Subdomain().validate(self.split('/')[0]).hasValue()",message="the prefix of a taint key must be a DNS subdomain such as readiness.k8s.io: at most 253 lowercase letters, digits, '-' or '.', with a letter or digit first and last"
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.substring(self.lastIndexOf('/') + 1).size() > 0 && self.substring(self.lastIndexOf('/') + 1).size() < 64",message="a taint key's name part must be 1-63 characters, such as NetworkReady in readiness.k8s.io/NetworkReady"
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.substring(self.lastIndexOf('/') + 1).matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="a taint key's name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character, such as NetworkReady in readiness.k8s.io/NetworkReady"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('node.kubernetes.io/') && !self.startsWith('node.cloudprovider.kubernetes.io/') && !self.startsWith('node-role.kubernetes.io/')",message="taints under node.kubernetes.io/, node.cloudprovider.kubernetes.io/ and node-role.kubernetes.io/ belong to Kubernetes: choose another key, for example readiness.k8s.io/NetworkReady"
	Key string `json:"key"`

	// value is the taint's value, for people: taints are matched by key and effect. Empty by default.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.size() <= 63",message="must be at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",message="must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character, such as pending"
	Value string `json:"value,omitempty"`

	// effect is what the taint does to pods that do not tolerate it: NoSchedule, PreferNoSchedule, or NoExecute,
	// which also evicts the pods that run on the node.
	// +required
	Effect TaintEffect `json:"effect"`

	// timeAdded has no effect in a rule. It is accepted because core taints have it.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!format.datetime().validate(self).hasValue() && self.matches('^[0-9-]{10}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$')",message="must be a time of RFC 3339, such as 2026-08-22T10:00:00Z"
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
}

// TaintEffect is what a taint does to pods that do not tolerate it.
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self in ['NoSchedule', 'PreferNoSchedule', 'NoExecute']",message="must be one of NoSchedule, PreferNoSchedule and NoExecute"
type TaintEffect string

// ConditionRequirement is a node condition that must have a status.
type ConditionRequirement struct {
	// type is the condition's type, as in the node's status.conditions.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`

	// requiredStatus is the status that the condition must have: True, False or Unknown.
	// +required
	RequiredStatus ConditionStatus `json:"requiredStatus"`

	// defaultStatus is the status that a node without the condition counts as having. Default Unknown. It does not
	// apply to a stale condition.
	// +optional
	DefaultStatus ConditionStatus `json:"defaultStatus,omitempty"`

	// maxAgeSeconds is how old the last report of a condition may be. An older condition counts as Unknown, so that a
	// dead reporter cannot keep a node ready. The age is that of lastHeartbeatTime, or of lastTransitionTime if there
	// is no heartbeat. Kubelet reports its own conditions every 5 minutes, with up to 450 seconds in between: use at
	// least 900 for these. By default, conditions do not become stale.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
}

// ConditionStatus is the status of a node condition.
// +kubebuilder:validation:Enum=True;False;Unknown
type ConditionStatus string

// The statuses of a node condition.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)
