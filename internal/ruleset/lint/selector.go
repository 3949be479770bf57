// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// needs reports whether a requirement matches only nodes with the label.
func needs(r labels.Requirement) bool { return !r.Matches(labels.Set{}) }

// The labels of Kubernetes that the admission plugin NodeRestriction lets a kubelet set on its own node; see
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction.
var (
	kubeletLabels = sets.New(
		corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os",
		"beta.kubernetes.io/arch",
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
		corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
	)
	kubeletNamespaces = []string{corev1.LabelNamespaceSuffixKubelet, corev1.LabelNamespaceSuffixNode}
	// reservedNamespaces are the namespaces in which a kubelet may set no other labels.
	reservedNamespaces = []string{"kubernetes.io", "k8s.io"}
)

// kubeletMaySet reports whether a kubelet may set a label on its own node.
func kubeletMaySet(key string) bool {
	namespace, _, found := strings.Cut(key, "/")
	if !found || kubeletLabels.Has(key) || within(namespace, kubeletNamespaces) {
		return true
	}
	return !within(namespace, reservedNamespaces)
}

// within reports whether a namespace of labels is in a list, or is a subdomain of one in the list.
func within(namespace string, of []string) bool {
	for _, n := range of {
		if namespace == n || strings.HasSuffix(namespace, "."+n) {
			return true
		}
	}
	return false
}
