// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxRate is the largest number of a rate, and how many times of claims a rule's status lists.
const MaxRate = 100

// Limit limits how many nodes in service a rule may taint.
// +kubebuilder:validation:XValidation:rule="has(self.max) != has(self.maxDomains)",message="give either max or maxDomains"
// +kubebuilder:validation:XValidation:rule="!has(self.maxDomains) || has(self.per)",message="maxDomains needs per, the label whose values are the domains",fieldPath=".per"
// +kubebuilder:validation:XValidation:rule="!has(self.withinSeconds) || has(self.max) && !has(self.per) && type(self.max) == int && self.max >= 1 && self.max <= 100",message="withinSeconds needs max, a number from 1 to 100, and cannot be combined with per",fieldPath=".withinSeconds"
type Limit struct {
	// max is the largest number of nodes in service that the rule may taint at a time. It is a number, or a percentage
	// of the nodes in service, rounded up. With per, it is about the nodes of each domain.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self == '100%' || self.size() < 4 && self.matches('^\\\\d+%$') && (self.size() == 2 || !self.startsWith('0')) : self >= 0 && self <= 2147483647",message="must be a number from 0 to 2147483647, or a percentage such as '30%'"
	Max *intstr.IntOrString `json:"max,omitempty"`

	// per is the key of a node label. Each of its values is a failure domain, such as a zone or a rack. Nodes without
	// the label are in the domain "". A tainted node stays in its domain until its taint is removed, even if its label
	// changes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a label key such as topology.kubernetes.io/zone: an optional DNS subdomain and '/', then 1-63 letters, digits, '-', '_' or '.', with a letter or digit first and last"
	Per string `json:"per,omitempty"`

	// maxDomains is the largest number of domains in which the rule may have tainted nodes in service at a time. It does
	// not limit how many nodes of these domains are tainted. At most 1000000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MaxDomains *int32 `json:"maxDomains,omitempty"`

	// withinSeconds makes max a rate: the rule taints at most so many nodes in service within this time, whether they
	// are still tainted or not. max is then a number from 1 to 100. A rate alone loses the fleet slowly: give an entry
	// with only max, too. Up to a day.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	WithinSeconds *int32 `json:"withinSeconds,omitempty"`
}

// RateStatus has the times of claims that limits with withinSeconds count. A time is written before the claim, and is
// the latest at which the claim may be made.
type RateStatus struct {
	// claimTimes are the times of taints on nodes in service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	ClaimTimes []metav1.Time `json:"claimTimes,omitempty"`
	// markTimes are the times at which the condition that the rule publishes became False.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	MarkTimes []metav1.Time `json:"markTimes,omitempty"`
}

// MaxDomainsListed is how many domains a rule's status lists.
const MaxDomainsListed = 100

// DomainStatus is the use of a rule's limits in one failure domain.
type DomainStatus struct {
	// per is the key of the label.
	// +kubebuilder:validation:MaxLength=317
	Per string `json:"per"`
	// domain is the value of the label. It is empty for the nodes without the label.
	// +kubebuilder:validation:MaxLength=63
	Domain string `json:"domain"`
	// inService is how many nodes in service there are, of which a percentage is a share.
	InService int32 `json:"inService"`
	// inUse and deleted are as those of all nodes.
	InUse int32 `json:"inUse"`
	// deleted is how many deleted nodes still count.
	// +optional
	Deleted int32 `json:"deleted,omitempty"`
	// waiting is how many nodes are not ready, but are not tainted because of a limit.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
}
