// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodWrapper wraps a Pod.
type PodWrapper struct{ corev1.Pod }

// MakePod starts a Pod with one container. It has no UID and no times: an API server gives them.
func MakePod(namespace, name string) *PodWrapper {
	p := &PodWrapper{corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example.com/c:1"}}
	return p
}

// Obj is the pod.
func (p *PodWrapper) Obj() *corev1.Pod { return p.DeepCopy() }

// UID sets the UID.
func (p *PodWrapper) UID(uid string) *PodWrapper {
	p.Pod.UID = types.UID(uid)
	return p
}

// Node binds the pod to a node.
func (p *PodWrapper) Node(name string) *PodWrapper {
	p.Spec.NodeName = name
	return p
}

// Created sets the time of creation.
func (p *PodWrapper) Created(t time.Time) *PodWrapper {
	p.CreationTimestamp = metav1.NewTime(t)
	return p
}

// Terminating makes the pod one that is being deleted.
func (p *PodWrapper) Terminating(t time.Time) *PodWrapper {
	p.DeletionTimestamp = &metav1.Time{Time: t}
	return p
}

// Phase sets the phase.
func (p *PodWrapper) Phase(phase corev1.PodPhase) *PodWrapper {
	p.Status.Phase = phase
	return p
}

// Annotation sets an annotation.
func (p *PodWrapper) Annotation(key, value string) *PodWrapper {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	return p
}

// Condition appends a condition that is True since then.
func (p *PodWrapper) Condition(conditionType corev1.PodConditionType, reason string, since time.Time) *PodWrapper {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: conditionType, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(since)})
	return p
}

// Tolerate tolerates a taint of NoExecute for so many seconds; forever, if they are negative.
func (p *PodWrapper) Tolerate(key string, seconds int64) *PodWrapper {
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if seconds >= 0 {
		t.TolerationSeconds = &seconds
	}
	p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	return p
}

// WrapPod goes on from a pod that is there. The pod is copied.
func WrapPod(pod *corev1.Pod) *PodWrapper { return &PodWrapper{*pod.DeepCopy()} }
