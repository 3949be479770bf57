// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodegate/nodegate/internal/ruleset/lint"
)

// Workloads are what makes pods among objects.
func Workloads(objects []Object) []lint.Workload {
	var out []lint.Workload
	for _, o := range objects {
		if w, ok := Workload(o.Typed); ok {
			if w.Namespace == "" {
				w.Namespace = metav1.NamespaceDefault
			}
			out = append(out, w)
		}
	}
	return out
}

// Workload is an object that makes pods, or is one that nothing made.
func Workload(o runtime.Object) (lint.Workload, bool) {
	of := func(kind string, m *metav1.ObjectMeta, labels map[string]string, pod *corev1.PodSpec) (lint.Workload, bool) {
		return lint.Workload{Kind: kind, Namespace: m.Namespace, Name: m.Name, Labels: labels, Pod: pod}, true
	}
	switch o := o.(type) {
	case *appsv1.DaemonSet:
		return of("DaemonSet", &o.ObjectMeta, o.Spec.Template.Labels, &o.Spec.Template.Spec)
	case *appsv1.Deployment:
		return of("Deployment", &o.ObjectMeta, o.Spec.Template.Labels, &o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		return of("StatefulSet", &o.ObjectMeta, o.Spec.Template.Labels, &o.Spec.Template.Spec)
	case *corev1.Pod:
		if owner := metav1.GetControllerOf(o); owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "ReplicaSet" && owner.Kind != "StatefulSet" {
			return of("Pod", &o.ObjectMeta, o.Labels, &o.Spec)
		}
	}
	return lint.Workload{}, false
}
