// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodegate/nodegate/internal/evidence"
)

// transform returns a transform of the objects of a type. Others stay as they are.
func transform[T any](f func(T) any) cache.TransformFunc {
	return func(o any) (any, error) {
		if object, ok := o.(T); ok {
			return f(object), nil
		}
		return o, nil
	}
}

// stripPod drops all fields of a pod except its metadata, node, tolerations and readiness.
func stripPod(pod *corev1.Pod) any {
	pod.ManagedFields = nil
	kept := corev1.PodSpec{NodeName: pod.Spec.NodeName, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations}
	for i := range pod.Spec.Containers {
		c := corev1.Container{Name: pod.Spec.Containers[i].Name}
		if pod.Spec.Containers[i].ReadinessProbe != nil {
			c.ReadinessProbe = &corev1.Probe{}
		}
		kept.Containers = append(kept.Containers, c)
	}
	pod.Spec = kept
	status := corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, StartTime: pod.Status.StartTime}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: c.Ready,
			State: c.State})
	}
	pod.Status = status
	return pod
}

// stripSlice drops all fields of devices except the name and taints.
func stripSlice(slice *resourcev1.ResourceSlice) any {
	slice.ManagedFields = nil
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i] = resourcev1.Device{Name: slice.Spec.Devices[i].Name, Taints: slice.Spec.Devices[i].Taints}
	}
	return slice
}

// stripDaemonPod replaces a pod by a slimPod.
func stripDaemonPod(pod *corev1.Pod) any {
	out := &slimPod{node: evidence.NodeOf(pod), ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name,
		ResourceVersion: pod.ResourceVersion}}
	out.pod, out.kept = evidence.DaemonPodOf(pod)
	return out
}

// compileDaemonSet replaces a DaemonSet by its compiled form.
func compileDaemonSet(set *appsv1.DaemonSet) any { return evidence.CompileDaemonSet(set) }
