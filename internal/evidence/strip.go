// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// stripPod drops all fields of a pod except its metadata, node, tolerations and readiness.
func stripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
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
	return pod, nil
}

// stripSlice drops all fields of devices except the name and taints.
func stripSlice(o any) (any, error) {
	slice, ok := o.(*resourcev1.ResourceSlice)
	if !ok {
		return o, nil
	}
	slice.ManagedFields = nil
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i] = resourcev1.Device{Name: slice.Spec.Devices[i].Name, Taints: slice.Spec.Devices[i].Taints}
	}
	return slice, nil
}

// compileDaemonSet replaces a DaemonSet by its compiled form.
func compileDaemonSet(o any) (any, error) {
	if set, ok := o.(*appsv1.DaemonSet); ok {
		return ruleset.CompileDaemonSet(set), nil
	}
	return o, nil
}
