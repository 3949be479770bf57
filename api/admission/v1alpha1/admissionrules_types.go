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

	// groups are the rules that taint nodes at admission, by their selector. Rules with the same taint follow each other,
	// the oldest first. At most 1000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Groups []RuleGroup `json:"groups,omitempty"`

	// frozen are the UIDs of the rules that the operator has frozen, for the webhooks for pods. The oldest rules first. At
	// most 1000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=36
	Frozen []string `json:"frozen,omitempty"`
}

// RuleGroup are rules that select the same nodes. A later version adds optional fields only, so that the admission
// policy of one version can read what the operator of another one has written.
type RuleGroup struct {
	// selector are requirements on the labels of a node, which must all be met.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Selector []Requirement `json:"selector"`

	// rules are the rules, each as one line: its UID, the time since which it is in force, its name, and the key, the
	// value and the effect of its taint, separated by commas. An update taints no node that was created before that time.
	// An API server decodes the whole object several times for each new node, and a line costs it less than six fields.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=710
	// +kubebuilder:validation:items:Pattern=`^[^,]{1,36},[0-9TZ:-]{20},[^,]{1,253},[^,]{1,317},[^,]{0,63},(NoSchedule|PreferNoSchedule|NoExecute)$`
	Rules []string `json:"rules"`

	// records are the annotations of the rules on a new node, so that the admission policy need not make them for each
	// node.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	Records map[string]Record `json:"records,omitempty"`

	// taints are the taints of the rules, so that the admission policy need not make them for each node. Without them,
	// because rules have the same taint or the operator is of another version, it does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Taints []Taint `json:"taints,omitempty"`
}

// Record is the value of an annotation that is the record of a rule on a new node.
//
// +kubebuilder:validation:MaxLength=800
type Record string

// Taint is a taint of a rule.
type Taint struct {
	// key is the taint's key.
	// +required
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// value is the taint's value.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`

	// effect is the taint's effect.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect"`
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
