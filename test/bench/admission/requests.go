// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/test/cluster"
)

// kind is a kind of request. In each round and control plane, all functions are called once for each request, with a
// name that no other request has.
type kind struct {
	name                   string
	prepare, send, cleanUp func(ctx context.Context, s *scene, name string) error
	// repeats says that the same request can be sent again in the next round: then only the first round is prepared, and
	// only the last is cleaned up.
	repeats bool
}

// The requests about nodes. All rules match the nodes that are created while this is measured. No rule matches the
// others, so that these are as large in every setup.
var nodeKinds = []kind{
	{
		name: "heartbeat", repeats: true, prepare: createNode("other"), cleanUp: deleteNode,
		send: func(ctx context.Context, s *scene, name string) error {
			next := time.Now().Add(time.Duration(s.round) * time.Minute) // each round changes the node
			patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`,
				next.UTC().Format(time.RFC3339))
			_, err := s.kubelet.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
				"status")
			return err
		},
	},
	{
		name: "patch of a node", repeats: true, prepare: createNode("other"), cleanUp: deleteNode,
		send: func(ctx context.Context, s *scene, name string) error {
			_, err := s.cluster.Clientset.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType,
				fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, s.round%2 == 0), metav1.PatchOptions{})
			return err
		},
	},
	{name: "creation of a node", send: createNode(pool), cleanUp: deleteNode},
}

func createNode(of string) func(context.Context, *scene, string) error {
	return func(ctx context.Context, s *scene, name string) error {
		node := cluster.NewNode(name, cluster.NodeOptions{Unmanaged: true, Labels: map[string]string{poolKey: of}})
		for i := range annotations {
			node.Annotations[fmt.Sprintf("node.example.com/note-%d", i)] = "a value as long as that of most annotations"
		}
		_, err := s.kubelet.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	}
}

func deleteNode(ctx context.Context, s *scene, name string) error {
	return s.cluster.Clientset.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
}

// The requests about pods, on a node that the rule with podAdmission: Deny and an eviction guard matches and that is
// ready.
var podKinds = []kind{
	{
		name: "binding of a pod", prepare: createPod(""), cleanUp: deletePod,
		send: func(ctx context.Context, s *scene, name string) error {
			return s.cluster.Clientset.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: podNode},
			}, metav1.CreateOptions{})
		},
	},
	{
		name: "write of pods/status", prepare: createPod(podNode), cleanUp: deletePod,
		send: func(ctx context.Context, s *scene, name string) error {
			_, err := s.podKubelet.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType,
				[]byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{},
				"status")
			return err
		},
	},
	{
		name: "deletion by the node controller", prepare: createPod(podNode),
		send: func(ctx context.Context, s *scene, name string) error {
			return s.nodeController.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{
				GracePeriodSeconds: new(int64)})
		},
	},
}

func createPod(node string) func(context.Context, *scene, string) error {
	return func(ctx context.Context, s *scene, name string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		pod.Spec.NodeName = node
		pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example.com/main:1"}}
		_, err := s.cluster.Clientset.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
}

func deletePod(ctx context.Context, s *scene, name string) error {
	return s.cluster.Clientset.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64)})
}
