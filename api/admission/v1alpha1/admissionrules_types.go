// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name is the name of the only AdmissionRules.
const Name = "nodegate"

// MaxRules is how many rules the object can have.
const MaxRules = 1000

// AdmissionRules are the rules that taint nodes at admission, as the leader has decided. There is one such object.
// The operator writes it, and writes it again if someone else changes or deletes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=admissionrules,scope=Cluster
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'nodegate'",message="the name must be nodegate"
type AdmissionRules struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// markerPrefix begins the keys of the annotations that say that a node has completed a rule. If empty, it is
	// readiness.k8s.io/bootstrap-completed-.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MarkerPrefix string `json:"markerPrefix,omitempty"`

	// rules are the rules that taint nodes at admission. Rules with the same taint follow each other, the oldest first. At
	// most 1000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Rules []AdmissionRule `json:"rules,omitempty"`

	// frozen are the UIDs of the rules that the operator has frozen, for the webhooks for pods. The oldest rules first. At
	// most 1000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=36
	Frozen []string `json:"frozen,omitempty"`
}

// AdmissionRule is what admission needs of a NodeReadinessRule.
type AdmissionRule struct {
	// name is the rule's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid is the rule's UID.
	// +required
	// +kubebuilder:validation:MaxLength=36
	UID string `json:"uid"`

	// since is when the rule was put in force. An update taints no node that was created before.
	// +required
	Since metav1.Time `json:"since"`

	// key is the key of the rule's taint.
	// +required
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// value is the value of the rule's taint.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`

	// effect is the effect of the rule's taint.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect"`

	// record is how the record begins that admission writes to a node for the rule, so that the policy does not put it
	// together for each node.
	// +required
	// +kubebuilder:validation:MaxLength=800
	Record string `json:"record"`

	// selector are requirements on the labels of a node, which must all be met.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Selector []Requirement `json:"selector"`
}

// Requirement is a requirement on the labels of a node.
type Requirement struct {
	// key is the label's key.
	// +required
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// operator compares the label with the values.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator"`

	// values are the values for In and NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values,omitempty"`
}

// AdmissionRulesList is a list of AdmissionRules.
//
// +kubebuilder:object:root=true
type AdmissionRulesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AdmissionRules `json:"items"`
}
