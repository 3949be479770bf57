// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// newExample is an env with two nodes.
func newExample(t *testing.T, labels map[string]string) *env {
	t.Helper()
	e := newPool(t, 0)
	e.Join(2, labels)
	return e
}

// says waits until the status of a rule says what is missing on node i.
func (e *env) says(rule string, i int, message string) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("rule %s says %q", rule, message), func() error {
		r := &v1alpha1.NodeReadinessRule{}
		if err := e.Client.Get(e.T.Context(), client.ObjectKey{Name: rule}, r); err != nil {
			return err
		}
		for _, n := range r.Status.NodeEvaluations {
			for _, q := range n.RequirementResults {
				if n.NodeName == e.Nodes[i] && q.Message == message {
					return nil
				}
			}
		}
		return fmt.Errorf("it says %+v", r.Status.NodeEvaluations)
	})
}

func TestExampleStartupTaint(t *testing.T) {
	e := newExample(t, map[string]string{"kubernetes.azure.com/mode": "user"})
	e.Join(1, map[string]string{"kubernetes.azure.com/mode": "system"})
	const taint = "startup.k8s.io/initializing"
	const missing = "0 of 1 pods startup.k8s.io/component=init of namespace kube-system are ready on this node"
	e.ApplyFile(cluster.Example("startup-taint", "rule.yaml"))
	e.taints(0, taint)
	e.taints(1, taint)
	e.taints(2) // skipped, as the selector says
	e.says("startup-taint", 0, missing)

	// A pod that has the label and is not of the DaemonSet releases no node.
	impostor := build.MakePod("kube-system", "impostor").Node(e.Nodes[0]).Annotation("startup.k8s.io/ready", "true").Obj()
	impostor.Labels = map[string]string{"startup.k8s.io/component": "init"}
	e.Eventually("the impostor is there", func() error { // it needs the namespace's default service account
		return client.IgnoreAlreadyExists(e.Client.Create(t.Context(), impostor.DeepCopy()))
	})
	e.Discard(impostor)
	e.says("startup-taint", 0, missing+": pod impostor is not of DaemonSet startup-init")

	// The real controller manager and scheduler place its pods on the nodes.
	e.ApplyFile(cluster.Example("startup-taint", "init-daemonset.yaml"))
	for i, node := range e.Nodes[:2] {
		e.taints(i)
		completed := e.Node(node).Annotations["startup.k8s.io/completedAt"]
		if at, err := strconv.ParseInt(completed, 10, 64); err != nil || at < 1e9 {
			t.Errorf("node %d: completedAt %d, %v", i, at, err)
		}
	}
}

func TestExampleCSIDriver(t *testing.T) {
	e := newExample(t, map[string]string{"example.com/storage": "ebs"})
	const taint = "readiness.k8s.io/StorageReady"
	e.Eventually("the nodes are older than the rule", func() error { // times of creation are in whole seconds
		if age := time.Since(e.Node(e.Nodes[1]).CreationTimestamp.Time); age < time.Second {
			return fmt.Errorf("they are %s old", age)
		}
		return nil
	})
	e.ApplyFile(cluster.Example("csi-driver", "rule.yaml"))
	e.says("ebs-csi", 0, "CSI driver ebs.csi.aws.com is not registered")
	// Both were in service before the rule, of which maxUnavailable lets one be held.
	e.Eventually("one of the nodes is held", func() error {
		a, b := cluster.HasTaint(e.Node(e.Nodes[0]), taint), cluster.HasTaint(e.Node(e.Nodes[1]), taint)
		if a == b {
			return fmt.Errorf("held: %t, %t", a, b)
		}
		return nil
	})
	for i := range e.Nodes {
		e.csiNode(i, "ebs.csi.aws.com")
	}
	e.taints(0)
	e.taints(1)
}

// csiNode registers a driver of node i, as kubelet does.
func (e *env) csiNode(i int, driver string) *storagev1.CSINode {
	e.T.Helper()
	count := int32(25)
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: e.Nodes[i]}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{
			{Name: driver, NodeID: e.Nodes[i], Allocatable: &storagev1.VolumeNodeResources{Count: &count}},
		},
	}}
	e.Eventually("the CSINode is written", func() error {
		return client.IgnoreAlreadyExists(e.Client.Create(context.Background(), n.DeepCopy()))
	})
	e.Discard(n)
	return n
}

func TestExampleGPU(t *testing.T) {
	e := newPool(t, 0)
	e.ApplyFile(cluster.Example("gpu", "rule.yaml"))
	e.Join(2, map[string]string{"example.com/accelerator": "nvidia"})
	e.taints(0, "readiness.k8s.io/GPUReady")
	e.says("gpus", 0, "resource nvidia.com/gpu: none is allocatable, must be at least 1")
	for i, node := range e.Nodes {
		e.Eventually("the device plugin reports", func() error {
			n := e.Node(node)
			n.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("8")
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
			return e.Client.Status().Update(t.Context(), n)
		})
		e.taints(i)
	}
}

func TestExampleTwoPhase(t *testing.T) {
	e := newPool(t, 0)
	e.ApplyFile(cluster.Example("two-phase", "rules.yaml"))
	e.Join(2, map[string]string{cluster.PoolKey: "phased"})
	e.taints(0, "readiness.k8s.io/Preinit", "readiness.k8s.io/Warming")
	e.Report(e.Nodes[0], "example.com/Warm", true)
	e.says("warming", 0, "rule preinit is not satisfied on this node")
	e.Report(e.Nodes[0], "example.com/Initialised", true)
	e.taints(0)
	e.taints(1, "readiness.k8s.io/Preinit", "readiness.k8s.io/Warming")
}
