// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/stage"
)

// example is one of the examples at work on two nodes of its own.
type example struct {
	*stage.Stage
	t     *testing.T
	nodes []string
}

func newExample(t *testing.T, labels map[string]string) *example {
	t.Helper()
	e := &example{Stage: sharedCluster(t), t: t}
	e.join(labels)
	return e
}

// join has two nodes join.
func (e *example) join(labels map[string]string) {
	e.t.Helper()
	prefix := strings.ToLower(e.t.Name())
	e.must(e.AddNodes(e.t.Context(), prefix, 2, cluster.NodeOptions{Labels: labels}))
	for i := range 2 {
		e.nodes = append(e.nodes, fmt.Sprintf("%s-%d", prefix, i))
	}
	e.t.Cleanup(func() {
		for _, n := range e.nodes {
			_ = e.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
		}
	})
}

func (e *example) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// apply applies a file of the examples, and takes away at the end what it brought.
func (e *example) apply(path ...string) []*unstructured.Unstructured {
	e.t.Helper()
	objects, err := e.Apply(e.t.Context(), e.Example(path...))
	e.must(err)
	e.t.Cleanup(func() {
		for _, o := range objects {
			_ = e.Client.Delete(context.Background(), o)
			cluster.Eventually(e.t, o.GetName()+" is gone", func() error {
				err := e.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("it is there: %w", err)
			})
		}
	})
	return objects
}

func (e *example) node(i int) *corev1.Node {
	e.t.Helper()
	n := &corev1.Node{}
	e.must(e.Client.Get(e.t.Context(), client.ObjectKey{Name: e.nodes[i]}, n))
	return n
}

// taints waits until node i carries exactly these of the keys that the examples use.
func (e *example) taints(i int, want ...string) {
	e.t.Helper()
	cluster.Eventually(e.t, fmt.Sprintf("node %d carries %q", i, want), func() error {
		got := []string{}
		for _, t := range e.node(i).Spec.Taints {
			if !slices.Contains([]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}, t.Key) {
				got = append(got, t.Key)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("it carries %q", got)
		}
		return nil
	})
}

// says waits until the status of a rule says of node i what is missing.
func (e *example) says(rule string, i int, message string) {
	e.t.Helper()
	cluster.Eventually(e.t, fmt.Sprintf("rule %s says %q", rule, message), func() error {
		r := &v1alpha1.NodeReadinessRule{}
		if err := e.Client.Get(e.t.Context(), client.ObjectKey{Name: rule}, r); err != nil {
			return err
		}
		for _, n := range r.Status.NodeEvaluations {
			for _, q := range n.RequirementResults {
				if n.NodeName == e.nodes[i] && q.Message == message {
					return nil
				}
			}
		}
		return fmt.Errorf("it says %+v", r.Status.NodeEvaluations)
	})
}

func TestExampleStartupTaint(t *testing.T) {
	e := newExample(t, map[string]string{"kubernetes.azure.com/mode": "user"})
	e.must(e.AddNodes(t.Context(), "system-pool", 1, cluster.NodeOptions{Labels: map[string]string{"kubernetes.azure.com/mode": "system"}}))
	e.nodes = append(e.nodes, "system-pool-0")
	const taint = "startup.k8s.io/initializing"
	e.apply("startup-taint", "rule.yaml")
	e.taints(0, taint)
	e.taints(1, taint)
	e.taints(2) // skipped, as the selector says
	e.says("startup-taint", 0, "0 of 1 pods startup.k8s.io/component=init of namespace kube-system are ready on this node")

	// Somebody else's pod with the label opens nothing.
	impostor := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "impostor", Namespace: "kube-system",
		Labels: map[string]string{"startup.k8s.io/component": "init"}, Annotations: map[string]string{"startup.k8s.io/ready": "true"}}}
	impostor.Spec = corev1.PodSpec{NodeName: e.nodes[0], Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/c:1"}}}
	cluster.Eventually(t, "the impostor is there", func() error { // it needs the namespace's default service account
		return client.IgnoreAlreadyExists(e.Client.Create(t.Context(), impostor))
	})
	t.Cleanup(func() {
		_ = e.Client.Delete(context.Background(), impostor, client.GracePeriodSeconds(0))
	})
	e.says("startup-taint", 0, "0 of 1 pods startup.k8s.io/component=init of namespace kube-system are ready on this node: pod impostor is not of DaemonSet startup-init")

	e.apply("startup-taint", "init-daemonset.yaml") // the real controller manager and scheduler bring its pods to the nodes
	for i := range 2 {
		e.taints(i)
		if at, err := strconv.ParseInt(e.node(i).Annotations["startup.k8s.io/completedAt"], 10, 64); err != nil || at < 1e9 {
			t.Errorf("node %d: completedAt %d, %v", i, at, err)
		}
	}
}

func TestExampleCSIDriver(t *testing.T) {
	e := newExample(t, map[string]string{"example.com/storage": "ebs"})
	const taint = "readiness.k8s.io/StorageReady"
	cluster.Eventually(t, "the nodes are older than the rule", func() error { // times of creation are in whole seconds
		if age := time.Since(e.node(1).CreationTimestamp.Time); age < time.Second {
			return fmt.Errorf("they are %s old", age)
		}
		return nil
	})
	e.apply("csi-driver", "rule.yaml")
	e.says("ebs-csi", 0, "csi driver ebs.csi.aws.com is not registered")
	// Both were in service before the rule, of which maxUnavailable lets one be held.
	cluster.Eventually(t, "one of the nodes is held", func() error {
		if a, b := hasTaint(e.node(0), taint), hasTaint(e.node(1), taint); a == b {
			return fmt.Errorf("held: %t, %t", a, b)
		}
		return nil
	})
	for i := range e.nodes {
		e.csiNode(i, "ebs.csi.aws.com")
	}
	e.taints(0)
	e.taints(1)
}

// csiNode has a driver of node i registered, as kubelet does.
func (e *example) csiNode(i int, driver string) *storagev1.CSINode {
	e.t.Helper()
	name := e.nodes[i]
	n := &storagev1.CSINode{}
	cluster.Eventually(e.t, "the CSINode is written", func() error {
		n = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](25)}}}
		return client.IgnoreAlreadyExists(e.Client.Create(e.t.Context(), n))
	})
	e.t.Cleanup(func() { _ = e.Client.Delete(context.Background(), n) })
	return n
}

func TestExampleGPU(t *testing.T) {
	e := newExample(t, map[string]string{"example.com/accelerator": "nvidia"})
	e.apply("gpu", "rule.yaml")
	e.taints(0, "readiness.k8s.io/GPUReady")
	e.says("gpus", 0, "resource nvidia.com/gpu: none is allocatable, must be at least 1")
	for i := range 2 {
		cluster.Eventually(t, "the device plugin reports", func() error {
			n := e.node(i)
			n.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("8")
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
			return e.Client.Status().Update(t.Context(), n)
		})
		e.taints(i)
	}
}

func TestExampleTwoPhase(t *testing.T) {
	e := newExample(t, map[string]string{"example.com/pool": "phased"})
	e.apply("two-phase", "rules.yaml")
	e.taints(0, "startup.example.com/preinit", "startup.example.com/warming")
	e.must(stage.Report(t.Context(), e.Clientset, e.nodes[0], "example.com/Warm", true, "Test", ""))
	e.says("warming", 0, "rule preinit does not hold on this node")
	e.must(stage.Report(t.Context(), e.Clientset, e.nodes[0], "example.com/Initialised", true, "Test", ""))
	e.taints(0)
	e.taints(1, "startup.example.com/preinit", "startup.example.com/warming")
}
