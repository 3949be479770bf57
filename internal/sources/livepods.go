// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/evidence"
)

// onNode is the field of pods and ResourceSlices that names their node.
const onNode = "spec.nodeName"

// AllPods returns the pods of a node, as the API server has them: no cache holds all pods. Options select among them.
func AllPods(ctx context.Context, live client.Reader, node string, of ...client.ListOption) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := live.List(ctx, list, append(of, client.MatchingFields{onNode: node})...); err != nil {
		return nil, fmt.Errorf("listing the pods of node %q: %w", node, err)
	}
	return list.Items, nil
}

// ListPods returns AllPods without those that have ended.
func ListPods(ctx context.Context, live client.Reader, node string, of ...client.ListOption) ([]corev1.Pod, error) {
	pods, err := AllPods(ctx, live, node, of...)
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return ended(&p) }), err
}

func ended(pod *corev1.Pod) bool {
	return !NotEnded.Matches(fields.Set{"status.phase": string(pod.Status.Phase)})
}

// PartOfNode reports whether a pod is part of its node: static, or of a DaemonSet.
func PartOfNode(pod *corev1.Pod) bool {
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// Busy reports whether a pod is neither part of its node nor of the system.
func Busy(pod *corev1.Pod) bool {
	return !PartOfNode(pod) && pod.Namespace != metav1.NamespaceSystem && pod.Namespace != metav1.NamespacePublic
}

// Occupies returns whether a pod is one that a taint would evict or refuse; without a taint, whether it is not part of
// its node.
func Occupies(taint *corev1.Taint) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
		return !static && (taint == nil && !PartOfNode(pod) ||
			taint != nil && evidence.Toleration(pod.Spec.Tolerations, taint) == nil)
	}
}
