// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Deploy creates a Deployment in the namespace default of so many pods, labelled app=name, each of which asks for so much
// CPU. The simulated nodes have 32.
func (s *Stage) Deploy(ctx context.Context, name string, replicas int32, cpu string) error {
	labels := map[string]string{"app": name}
	_, err := s.Clientset.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: name, Image: "registry.example.com/" + name + ":1",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
				}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the Deployment: %w", err)
	}
	return nil
}

// Report sets a condition of a node, as a reporter on that node would.
func Report(ctx context.Context, reporter kubernetes.Interface, node string, condition corev1.NodeConditionType, ready bool, reason, message string) error {
	now := metav1.NewTime(time.Now())
	c := corev1.NodeCondition{Type: condition, Status: corev1.ConditionFalse, LastHeartbeatTime: now, LastTransitionTime: now,
		Reason: reason, Message: message}
	if ready {
		c.Status = corev1.ConditionTrue
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	if err != nil {
		return err
	}
	// Conditions merge by their type: those of others stay.
	_, err = reporter.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("reporting %s of node %q: %w", condition, node, err)
	}
	return nil
}
