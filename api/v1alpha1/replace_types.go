// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// MaxReplacementsInARow is how many nodes a rule hands over without a node becoming ready before it stops.
	MaxReplacementsInARow = 3
	// MaxReplacementsListed is how many replacements a rule's status lists. It is also the most that maxPerHour allows.
	MaxReplacementsListed = 20
)

// Replace says how nodes that never become ready are handed over for replacement.
//
// +kubebuilder:validation:XValidation:rule="(!has(self.method) || self.method == 'Annotation') == has(self.annotation)",message="method: Annotation, the default, needs annotation, and method: NodeClaim does not take it: give annotation: {key: example.com/replace}, or remove annotation"
type Replace struct {
	// method: Annotation, the default, sets an annotation on the node, for a remediator of your own. NodeClaim deletes
	// the Karpenter NodeClaim of the node; the operator needs the permission for it, which is not installed by default.
	// +optional
	Method ReplaceMethod `json:"method,omitempty"`

	// annotation marks a node that is handed over. Required with method: Annotation. The operator removes it if the
	// node is released after all, is overridden, or is in maintenance.
	// +optional
	Annotation *ReplaceAnnotation `json:"annotation,omitempty"`

	// maxPerHour is how many nodes the rule hands over within an hour at most, 1 to 20. Default 1. The rule also stops
	// after three nodes in a row without a node becoming ready, until a node becomes ready or the rule is edited.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	MaxPerHour *int32 `json:"maxPerHour,omitempty"`
}

// ReplaceMethod says how a node is handed over.
// +kubebuilder:validation:Enum=Annotation;NodeClaim
type ReplaceMethod string

const (
	// ReplaceMethodAnnotation sets an annotation on the node.
	ReplaceMethodAnnotation ReplaceMethod = "Annotation"
	// ReplaceMethodNodeClaim deletes the node's Karpenter NodeClaim.
	ReplaceMethodNodeClaim ReplaceMethod = "NodeClaim"
)

// ReplaceAnnotation is an annotation that marks nodes.
type ReplaceAnnotation struct {
	// key is the annotation's key, such as example.com/replace.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be an annotation key such as example.com/replace: an optional DNS subdomain and '/', then 1-63 letters, digits, '-', '_' or '.', with a letter or digit first and last"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('nodegate.io/') && !self.startsWith('readiness.k8s.io/bootstrap-completed-')",message="annotations under nodegate.io/ and readiness.k8s.io/bootstrap-completed- are written by Nodegate itself: choose another key"
	Key string `json:"key"`

	// value is the annotation's value. Default "true".
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// ReplacementStatus is which nodes a rule has handed over for replacement. The limits count by it.
type ReplacementStatus struct {
	// lastReadyTime is when a node last became ready and ended a row of replacements. Earlier replacements no longer
	// count in the row.
	// +optional
	LastReadyTime *metav1.Time `json:"lastReadyTime,omitempty"`

	// last are the last nodes that the rule has handed over, or was about to, with the newest at the end. At most 20.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Last []Replacement `json:"last,omitempty"`
}

// Replacement is a node that a rule has handed over, or was about to: it is written before the operator acts.
type Replacement struct {
	// nodeName is the node.
	NodeName string `json:"nodeName"`
	// nodeUID is the node's UID.
	NodeUID types.UID `json:"nodeUID"`
	// handoverTime is when the operator decided to hand the node over.
	HandoverTime metav1.Time `json:"handoverTime"`
	// method is how the node is handed over.
	Method ReplaceMethod `json:"method"`
	// generation is the rule's metadata.generation at that time. An edit of the rule ends the row.
	Generation int64 `json:"generation"`
}
