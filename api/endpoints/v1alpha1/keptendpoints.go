// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Name is the name of the only KeptEndpoints.
	Name = "nodegate"
	// MaxRules is how many rules it may have.
	MaxRules = 100
	// MaxNodes is how many nodes each of them may have.
	MaxNodes = 20_000
)

// KeptEndpoints tells the admission policy on which nodes the pods stay ready although the node controller finds the
// node not ready, and until when. There is one such object. Only the operator writes it. It is also what a new leader
// knows of an outage.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=keptendpoints,scope=Cluster
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'nodegate'",message="the name must be nodegate"
type KeptEndpoints struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// rules are the rules with evictionGuard.endpoints that are in force, or that keep endpoints. At most 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Rules []EndpointRule `json:"rules,omitempty"`
}

// EndpointRule is a NodeReadinessRule with evictionGuard.endpoints.
type EndpointRule struct {
	// name is the rule's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid is the rule's UID.
	// +required
	// +kubebuilder:validation:MaxLength=36
	UID string `json:"uid"`

	// armedUntil is when the policy stops to keep pods ready, unless the operator renews it.
	// +required
	ArmedUntil metav1.Time `json:"armedUntil"`

	// nodes are the nodes that the rule selects. The value is empty on a node whose pods would be kept; the time until
	// which they are kept during an outage; Ended, if they are kept no longer until the node is ready again, or before
	// the node leaves this list; and then Marked, when they are marked not ready.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=20000
	Nodes map[string]string `json:"nodes,omitempty"`
}

// The values of a node whose pods are kept no longer until it is ready again.
const (
	Ended  = "Ended"
	Marked = "Marked"
)

// KeptEndpointsList is a list of KeptEndpoints.
//
// +kubebuilder:object:root=true
type KeptEndpointsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KeptEndpoints `json:"items"`
}
