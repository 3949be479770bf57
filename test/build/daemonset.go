// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DaemonSetWrapper wraps a DaemonSet.
type DaemonSetWrapper struct{ appsv1.DaemonSet }

// MakeDaemonSet starts a DaemonSet with one container that has a readiness probe. Its UID is made of its name.
func MakeDaemonSet(namespace, name string) *DaemonSetWrapper {
	d := &DaemonSetWrapper{}
	d.Namespace, d.Name, d.UID, d.DaemonSet.Generation = namespace, name, types.UID("uid-"+namespace+"-"+name), 1
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Labels = map[string]string{"app": name}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: "example.com/agent",
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
			Command: []string{"true"}}}}}}
	return d
}

// Obj is the DaemonSet.
func (d *DaemonSetWrapper) Obj() *appsv1.DaemonSet { return d.DeepCopy() }

// Created sets the time of creation.
func (d *DaemonSetWrapper) Created(t time.Time) *DaemonSetWrapper {
	d.CreationTimestamp = metav1.NewTime(t)
	return d
}

// Label sets a label of the DaemonSet itself.
func (d *DaemonSetWrapper) Label(key, value string) *DaemonSetWrapper {
	metav1.SetMetaDataLabel(&d.ObjectMeta, key, value)
	return d
}

// Template edits what its pods are made of.
func (d *DaemonSetWrapper) Template(edit func(*corev1.PodSpec)) *DaemonSetWrapper {
	edit(&d.Spec.Template.Spec)
	d.DaemonSet.Generation++
	return d
}

// Tolerate makes its pods tolerate all taints of a key; all taints, if the key is empty.
func (d *DaemonSetWrapper) Tolerate(key string) *DaemonSetWrapper {
	return d.Template(func(pod *corev1.PodSpec) {
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	})
}

// Select adds a label that nodes must have.
func (d *DaemonSetWrapper) Select(key, value string) *DaemonSetWrapper {
	return d.Template(func(pod *corev1.PodSpec) {
		if pod.NodeSelector == nil {
			pod.NodeSelector = map[string]string{}
		}
		pod.NodeSelector[key] = value
	})
}

// Pod is a pod of the DaemonSet that runs on a node and has been ready since it was created.
func (d *DaemonSetWrapper) Pod(node string, created time.Time) *PodWrapper {
	p := MakePod(d.Namespace, d.Name+"-"+node).Node(node).Created(created)
	p.Labels = d.Spec.Template.Labels
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&d.DaemonSet,
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	p.Spec.Containers = d.Spec.Template.Spec.Containers
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(created)}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(created)}}}}
	return p
}

// Unready makes a pod one that has lost its readiness.
func (p *PodWrapper) Unready() *PodWrapper {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses[0].Ready = false
	return p
}
