// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deploy creates a Deployment in the namespace default. Its pods are labelled app=name, and each asks for so much CPU:
// the simulated nodes have 32.
func (c *Cluster) Deploy(ctx context.Context, name string, replicas int32, cpu string, nodes map[string]string) error {
	labels := map[string]string{"app": name}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	pod := corev1.PodSpec{NodeSelector: nodes, Containers: []corev1.Container{{
		Name: name, Image: "registry.example.com/" + name + ":1",
		Resources: corev1.ResourceRequirements{Requests: requests},
	}}}
	return c.Client.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	})
}

// Report sets a condition of a node, as a reporter on that node does.
func (c *Cluster) Report(ctx context.Context, node, condition string, ready bool) error {
	now := metav1.NewTime(time.Now())
	report := corev1.NodeCondition{
		Type: corev1.NodeConditionType(condition), Status: corev1.ConditionTrue, Reason: "EndpointOK",
		Message: "simulated", LastHeartbeatTime: now, LastTransitionTime: now,
	}
	if !ready {
		report.Status, report.Reason = corev1.ConditionFalse, "EndpointNotReady"
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{report}}})
	if err != nil {
		return err
	}
	// The API server merges conditions by their type: those of others stay.
	_, err = c.Clientset.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status")
	if err != nil {
		return fmt.Errorf("reporting %s of node %q: %w", condition, node, err)
	}
	return nil
}

// Register creates a node as its kubelet does, which may not set every label.
func (c *Cluster) Register(ctx context.Context, name string, o NodeOptions) error {
	kubelet, err := c.As("system:node:"+name, "system:nodes")
	if err != nil {
		return err
	}
	if err := kubelet.Create(ctx, NewNode(name, o)); err != nil {
		return fmt.Errorf("registering node %q: %w", name, err)
	}
	return nil
}

// HasTaint reports whether a node has a taint with this key.
func HasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// ConditionOf returns a node's condition, nil if it has none of the type.
func ConditionOf(n *corev1.Node, conditionType corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == conditionType {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// Watch lists objects into list and calls see for each of them, and then for every version of each that is written from
// then on, in order, until ctx ends: unlike an informer it leaves none out. It goes on where it was if the API server
// ends the watch. The channel is closed after the last call.
func (c *Cluster) Watch(
	ctx context.Context, list client.ObjectList, see func(e watch.Event) error, options ...client.ListOption,
) (<-chan error, error) {
	if err := c.Client.List(ctx, list, options...); err != nil {
		return nil, err
	}
	if err := meta.EachListItem(list, func(o runtime.Object) error {
		return see(watch.Event{Type: watch.Added, Object: o})
	}); err != nil {
		return nil, err
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			empty, _ := list.DeepCopyObject().(client.ObjectList)
			all := (&client.ListOptions{Raw: &o}).ApplyOptions(options)
			return c.Client.Watch(ctx, empty, all)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		defer w.Stop()
		for e := range w.ResultChan() {
			err := error(nil)
			if e.Type == watch.Error {
				err = fmt.Errorf("watching: %w", apierrors.FromObject(e.Object))
			} else {
				err = see(e)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended, nil
}
