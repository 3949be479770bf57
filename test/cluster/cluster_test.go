// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestCluster is one test with an order, because a cluster for each of its parts would take its time. It tests what no
// suite that uses a cluster would miss.
func TestCluster(t *testing.T) {
	c, err := Start(t.Context(), Options{ControllerManager: true, Kwok: true, Log: t.Output()})
	Must(t, err)
	t.Cleanup(func() { _ = c.Stop() })
	t.Run("a pod and a node can be created at once", func(t *testing.T) {
		account := &corev1.ServiceAccount{}
		Must(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "default"}, account))
		Must(t, c.Client.Get(t.Context(), client.ObjectKey{Name: "kube-node-lease"}, &corev1.Namespace{}))
	})
	t.Run("it reports the version it was stamped with", func(t *testing.T) {
		v, err := c.Clientset.Discovery().ServerVersion()
		Must(t, err)
		if !strings.HasPrefix(v.GitVersion, "v"+v.Major+"."+v.Minor+".") || strings.Contains(v.GitVersion, "master") {
			t.Errorf("version %q, major %q, minor %q", v.GitVersion, v.Major, v.Minor)
		}
	})
	t.Run("a kubelet may create its node but not give it a role", c.kubeletRights)
	t.Run("a simulated kubelet corrects what others write about its pods", c.podIsReadyAgain)
	t.Run("a component that was killed can be started once", func(t *testing.T) {
		old := c.ControllerManager.PID()
		Must(t, c.ControllerManager.Kill())
		if c.ControllerManager.PID() != 0 || gone(old) != nil {
			t.Errorf("the controller manager was killed and runs")
		}
		Must(t, c.ControllerManager.Start(t.Context()))
		if err := c.ControllerManager.Start(t.Context()); err == nil {
			t.Error("a running component was started a second time")
		}
	})
	t.Run("Stop leaves no process and no directory", c.stopLeavesNothing)
}

func (c *Cluster) podIsReadyAgain(t *testing.T) {
	Must(t, c.AddNodes(t.Context(), "ready", 1, NodeOptions{Images: -1}))
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.Spec.NodeName = "pod", "default", "ready-0"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example.com/c:1"}}
	Must(t, c.Client.Create(t.Context(), pod))
	ready := func() error {
		Must(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("status %+v", pod.Status)
	}
	Eventually(t, "the pod is ready", ready)
	unready := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	Must(t, c.Client.Status().Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, unready)))
	Eventually(t, "the pod is ready again", ready)
}

func (c *Cluster) kubeletRights(t *testing.T) {
	kubelet, err := c.As("system:node:x", "system:nodes")
	Must(t, err)
	node := NewNode("x", NodeOptions{Unmanaged: true, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}})
	if err := kubelet.Create(t.Context(), node.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Errorf("a kubelet registered with a role: %v", err)
	}
	delete(node.Labels, "node-role.kubernetes.io/worker")
	Must(t, kubelet.Create(t.Context(), node))
	label := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/worker":""}}}`)
	if err := kubelet.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, label)); !apierrors.IsForbidden(err) {
		t.Errorf("a kubelet gave its node a role: %v", err)
	}
	other := NewNode("y", NodeOptions{Unmanaged: true})
	Must(t, c.Client.Create(t.Context(), other))
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`))
	if err := kubelet.Status().Patch(t.Context(), other, status); !apierrors.IsForbidden(err) {
		t.Errorf("a kubelet wrote the status of another node: %v", err)
	}
	kubeconfig, err := c.KubeconfigFor("system:node:x", "system:nodes")
	Must(t, err)
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig %s: %v, %v", kubeconfig, info, err)
	}
}

func (c *Cluster) stopLeavesNothing(t *testing.T) {
	own, err := c.Run(t.Context(), Process{Name: "own", Path: "/bin/sh", Args: []string{"-c", "exec sleep 600"}})
	Must(t, err)
	Must(t, c.ControllerManager.Pause()) // a paused one must end too
	pids := []int{c.guard.shell.Process.Pid}
	for _, component := range []*Component{c.Etcd, c.APIServer, c.ControllerManager, own} {
		if component.PID() == 0 {
			t.Errorf("%s does not run", component.process.Name)
		}
		pids = append(pids, component.PID())
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if err := gone(pid); err != nil {
			t.Error(err)
		}
	}
	if err := removed(c.Dir()); err != nil {
		t.Error(err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
}
