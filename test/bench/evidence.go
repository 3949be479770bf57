// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
)

const (
	// evidenceNamespace is where the pods are that rules go by, one on each node.
	evidenceNamespace = "default"
	evidenceLabel     = "bench.example.com/component"
	evidenceValue     = "warm-up"
)

// require makes a rule go by its evidence.
func (o *options) require(spec *v1alpha1.NodeReadinessRuleSpec, rule int) {
	if o.evidence == measure.ByConditions {
		spec.Conditions = []v1alpha1.ConditionRequirement{{Type: conditionType(rule), RequiredStatus: "True"}}
		return
	}
	spec.Requirements = []v1alpha1.Requirement{{Name: evidenceValue, Pods: &v1alpha1.PodsRequirement{
		Namespace: evidenceNamespace,
		Selector:  v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{evidenceLabel: evidenceValue}},
	}}}
}

// turnFirst writes the evidence of the first node.
func (b *bench) turnFirst(ctx context.Context, status corev1.ConditionStatus) error {
	_, err := b.turn(ctx, newWriter(b.writer.client, b.rules, b.writer.names[0]), status)
	return err
}

// turn writes the evidence of the nodes of a writer.
func (b *bench) turn(ctx context.Context, w *writer, status corev1.ConditionStatus) (*writes, error) {
	if b.evidence == measure.ByConditions {
		return w.setConditions(ctx, status)
	}
	patch, err := json.Marshal(map[string]any{"status": podStatus(status)})
	if err != nil {
		return nil, err
	}
	pods := w.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(evidenceNamespace)
	return w.patchEach(ctx, func(ctx context.Context, node string) error {
		_, err := pods.Patch(ctx, evidencePod(node), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

func evidencePod(node string) string { return evidenceValue + "-" + node }

func podStatus(status corev1.ConditionStatus) corev1.PodStatus {
	return corev1.PodStatus{
		Phase:             corev1.PodRunning,
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: status == corev1.ConditionTrue}},
	}
}

// createPods makes the pods that rules go by.
func (b *bench) createPods(ctx context.Context) error {
	if b.evidence != measure.ByPods {
		return nil
	}
	return forEach(ctx, b.writer.names, func(ctx context.Context, _ int, node string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: evidencePod(node),
			Labels: map[string]string{evidenceLabel: evidenceValue}}}
		pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main",
			Image: "registry.example.com/app:1",
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				Exec: &corev1.ExecAction{Command: []string{"true"}}}}}}}
		_, err := b.admin.CoreV1().Pods(evidenceNamespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}
