// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Requirement is a piece of evidence that Nodegate gathers by itself. Exactly one kind is given.
//
// +kubebuilder:validation:XValidation:rule="[has(self.pods), has(self.daemonSets), has(self.csiDriver), has(self.resource), has(self.devices), has(self.cel), has(self.noTaint), has(self.ruleSatisfied)].filter(x, x).size() == 1",message="give exactly one of pods, daemonSets, csiDriver, resource, devices, cel, noTaint and ruleSatisfied"
type Requirement struct {
	// name identifies the requirement in status, events and explanations. It is unique in the rule.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="must be a DNS label: at most 63 lowercase letters, digits or '-', with a letter or digit first and last"
	Name string `json:"name"`

	// pods requires pods that run on the node to be ready.
	// +optional
	Pods *PodsRequirement `json:"pods,omitempty"`

	// daemonSets requires each DaemonSet that belongs on the node to have a ready pod there. It needs maxUnavailable,
	// and its taint must not be NoExecute, unless the rule is bootstrap-only.
	// +optional
	DaemonSets *DaemonSetsRequirement `json:"daemonSets,omitempty"`

	// csiDriver requires a CSI driver to be registered on the node.
	// +optional
	CSIDriver *CSIDriverRequirement `json:"csiDriver,omitempty"`

	// resource requires the node to offer a quantity of a resource.
	// +optional
	Resource *ResourceRequirement `json:"resource,omitempty"`

	// devices requires devices that a DRA driver has published for the node.
	// +optional
	Devices *DevicesRequirement `json:"devices,omitempty"`

	// cel requires an expression over the node to be true.
	// +optional
	CEL *CELRequirement `json:"cel,omitempty"`

	// noTaint requires the node not to have a taint of another component.
	// +optional
	NoTaint *NoTaintRequirement `json:"noTaint,omitempty"`

	// ruleSatisfied requires the node to be ready under another rule, so that nodes start in phases.
	// +optional
	RuleSatisfied *RuleSatisfiedRequirement `json:"ruleSatisfied,omitempty"`
}

// PodsRequirement requires pods that run on the node to be ready. Terminating pods and pods that started before
// the node's last boot do not count.
//
// +kubebuilder:validation:XValidation:rule="!has(self.readyAnnotation) || !has(self.readyWhen) || self.readyWhen != 'PodReady'",message="readyAnnotation has no use with readyWhen: PodReady: remove it, or use Annotation or PodReadyOrAnnotation",fieldPath=".readyAnnotation"
// +kubebuilder:validation:XValidation:rule="!has(self.readyWhen) || self.readyWhen == 'PodReady' || has(self.readyAnnotation)",message="readyWhen: Annotation and PodReadyOrAnnotation need readyAnnotation: give its key and value, such as {key: startup.k8s.io/ready, value: 'true'}",fieldPath=".readyWhen"
type PodsRequirement struct {
	// namespace is the namespace of the pods. It is a single one, so that pods with the same labels in another
	// namespace do not count.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="must be a DNS label: at most 63 lowercase letters, digits or '-', with a letter or digit first and last"
	Namespace string `json:"namespace"`

	// selector selects the pods by their labels. It must not be empty.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="must select something: give matchLabels or matchExpressions"
	Selector PodSelector `json:"selector"`

	// ownerDaemonSet is the name of the DaemonSet that must own the pods. By default, any owner.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	OwnerDaemonSet string `json:"ownerDaemonSet,omitempty"`

	// minReady is how many of the pods must be ready. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReady *int32 `json:"minReady,omitempty"`

	// minReadySeconds is how long a pod must have been ready before it counts. Default 0, or 10 for a pod with a
	// container that has no readiness probe, which is "ready" as soon as it has started. 0 counts such a pod at once, too.
	// An annotation counts at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// readyWhen says what makes a pod ready: PodReady (the default: all its containers and its Ready condition),
	// Annotation, or PodReadyOrAnnotation.
	// +optional
	ReadyWhen PodReadyPolicy `json:"readyWhen,omitempty"`

	// readyAnnotation is the annotation of a pod that is ready.
	// +optional
	ReadyAnnotation *AnnotationMatch `json:"readyAnnotation,omitempty"`
}

// PodReadyPolicy says what makes a pod ready.
// +kubebuilder:validation:Enum=PodReady;Annotation;PodReadyOrAnnotation
type PodReadyPolicy string

const (
	// PodReadyPolicyPodReady goes by the pod's conditions.
	PodReadyPolicyPodReady PodReadyPolicy = "PodReady"
	// PodReadyPolicyAnnotation goes by an annotation.
	PodReadyPolicyAnnotation PodReadyPolicy = "Annotation"
	// PodReadyPolicyPodReadyOrAnnotation goes by either.
	PodReadyPolicyPodReadyOrAnnotation PodReadyPolicy = "PodReadyOrAnnotation"
)

// AnnotationMatch is an annotation with a value.
type AnnotationMatch struct {
	// key is the annotation's key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// value is the required value.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// CSIDriverRequirement requires a CSI driver in the node's CSINode.
type CSIDriverRequirement struct {
	// name is the driver's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// minAllocatable is how many volumes the driver must at least be able to attach. Not checked by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MinAllocatable *int32 `json:"minAllocatable,omitempty"`
}

// ResourceRequirement requires a quantity of a resource in the node's status.allocatable.
type ResourceRequirement struct {
	// name is the resource's name, such as nvidia.com/gpu.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Name string `json:"name"`

	// min is the least quantity.
	// ---
	// Kubernetes 1.32 and 1.33 take this string to be as long as a whole request. They accept the CRD only with this form
	// of the validation, and with at most 31 requirements.
	// +required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="type(self) in [int] || isQuantity(self)",message="must be a quantity, such as 1 or 4Gi"
	Min resource.Quantity `json:"min"`
}

// DevicesRequirement requires devices in the node's ResourceSlices. The devices of the newest generation of each pool
// count, without those that have a NoSchedule or NoExecute taint in their ResourceSlice. While a driver publishes a
// pool again, the last complete count stands. Taints of DeviceTaintRules are not seen.
type DevicesRequirement struct {
	// driver is the name of the DRA driver, such as gpu.nvidia.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver"`

	// min is how many devices there must at least be.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Min int32 `json:"min"`
}

// CELRequirement requires an expression to be true.
type CELRequirement struct {
	// expression is a CEL expression with a bool result. The variable node is the Node object, without the conditions
	// that rules publish.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
}

// NoTaintRequirement requires the node not to have a taint. The taint's value does not matter. Kubelet, or another
// component, must add the taint when the node joins: before that, the requirement is satisfied.
type NoTaintRequirement struct {
	// key is the key of the taint. With effect, it must not be that of the rule's own taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// effect is the effect of the taint.
	// +required
	Effect TaintEffect `json:"effect"`
}

// RuleSatisfiedRequirement requires another rule to hold on the same node.
type RuleSatisfiedRequirement struct {
	// name is the other rule's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
