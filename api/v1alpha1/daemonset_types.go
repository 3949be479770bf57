// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	"k8s.io/utils/ptr"
)

// DaemonSetsRequirement requires each DaemonSet that belongs on the node to have a ready pod there. A DaemonSet belongs
// on a node by the nodeName, nodeSelector, required node affinity and tolerations of its pods. Of the node's taints
// only lasting ones count: not those of Kubernetes itself, of rules, and of the prefixes in --transient-taint-prefixes.
// DaemonSets that are being deleted do not count. On a released node, neither do those that were created after the
// release, until the node is re-armed.
type DaemonSetsRequirement struct {
	// namespaces are the namespaces of the DaemonSets, 1 to 16. The operator needs permission to list and watch
	// DaemonSets in each of them.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Namespaces []NamespaceName `json:"namespaces"`

	// selector selects DaemonSets by their own labels, not by those of their pods. By default, and if it is
	// empty, all DaemonSets of the namespaces.
	// +optional
	Selector *PodSelector `json:"selector,omitempty"`

	// exclude lists DaemonSets that the requirement ignores. At most 64.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Exclude []DaemonSetReference `json:"exclude,omitempty"`

	// minMatching is how many DaemonSets must at least belong on the node. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinMatching *int32 `json:"minMatching,omitempty"`

	// minReadySeconds is how long a pod must have been ready before it counts. The default is the DaemonSet's own
	// minReadySeconds. If that is 0, the default is 10 for a pod with a container that has no readiness probe.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// untolerated says what happens with a DaemonSet that does not tolerate the rule's own taint, so that its pod can
	// never start before the taint is removed. Ignore, the default, leaves the DaemonSet out, and reports it in the
	// rule's status and in an event. Hold waits for its pod.
	// +optional
	Untolerated UntoleratedPolicy `json:"untolerated,omitempty"`

	// disruptionSeconds is how long a DaemonSet that was ready on a node in service still counts after its pod has
	// gone, so that a rollout does not taint nodes. Default 300.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	DisruptionSeconds *int32 `json:"disruptionSeconds,omitempty"`
}

// NamespaceName is the name of a namespace.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace, without wildcards: at most 63 lowercase letters, digits or '-', with a letter or digit first and last"
type NamespaceName string

// DaemonSetReference names a DaemonSet.
type DaemonSetReference struct {
	// namespace is the DaemonSet's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name is the DaemonSet's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// UntoleratedPolicy says what happens with a DaemonSet that does not tolerate the rule's own taint.
// +kubebuilder:validation:Enum=Ignore;Hold
type UntoleratedPolicy string

const (
	// UntoleratedIgnore leaves it out.
	UntoleratedIgnore UntoleratedPolicy = "Ignore"
	// UntoleratedHold waits for its pod.
	UntoleratedHold UntoleratedPolicy = "Hold"
)

// Disruption is for how long a DaemonSet counts after its pod has gone.
func (r *DaemonSetsRequirement) Disruption() time.Duration {
	return seconds(r.DisruptionSeconds, 5*time.Minute)
}

// Least is how many DaemonSets must belong on the node at least.
func (r *DaemonSetsRequirement) Least() int { return int(ptr.Deref(r.MinMatching, 1)) }
