// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const nodePolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch]
  resources: [{group: "", resources: [nodes, nodes/status]}]
- level: None
`

// suite is one cluster with everything, for the tests that follow one another.
type suite struct {
	*Cluster
	client kubernetes.Interface
}

// TestCluster is one test with an order, because a cluster for each of its parts would take its time.
func TestCluster(t *testing.T) {
	c, err := Start(t.Context(), Options{
		ControllerManager: true, Scheduler: true, Kwok: true, AuditPolicy: nodePolicy, Log: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{Cluster: c, client: client}

	t.Run("a pod and a node can be created at once", s.canBeUsed)
	t.Run("reports the version it was stamped with", s.version)
	t.Run("kwok makes a node Ready and the controller manager frees it", s.nodeReady)
	t.Run("the scheduler places a pod and kwok runs it, and removes it", s.podRuns)
	t.Run("kwok leaves alone what others write on a node", s.kwokKeepsOthers)
	t.Run("a kubelet may create its node but not give it a role", s.kubeletRights)
	t.Run("the controllers have the names of a real cluster", s.controllerNames)
	t.Run("the API server goes away and comes back at the same place", s.apiServerOutage)
	t.Run("scheduler and kwok find their way back", s.podRuns)
	t.Run("the controller manager restarts", s.controllerManagerRestart)
	t.Run("Stop leaves no process and no directory", s.stopLeavesNothing)
}

func (s *suite) canBeUsed(t *testing.T) {
	if _, err := s.client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default",
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := s.client.CoreV1().Namespaces().Get(t.Context(), "kube-node-lease", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func (s *suite) version(t *testing.T) {
	v, err := s.client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(v.GitVersion, "v"+v.Major+"."+v.Minor+".") || strings.Contains(v.GitVersion, "master") {
		t.Errorf("version %q, major %q, minor %q", v.GitVersion, v.Major, v.Minor)
	}
}

func (s *suite) nodeReady(t *testing.T) {
	taint := corev1.Taint{Key: "example.com/mine", Value: "x", Effect: corev1.TaintEffectPreferNoSchedule}
	if err := s.AddNodes(t.Context(), "n", 1, NodeOptions{Taints: []corev1.Taint{taint}}); err != nil {
		t.Fatal(err)
	}
	// Bystanders: when all nodes of a zone are not ready the controller manager evicts from none of them.
	cordoned := corev1.Taint{Key: "example.com/bystander", Effect: corev1.TaintEffectNoSchedule}
	if err := s.AddNodes(t.Context(), "bystander", 2, NodeOptions{Taints: []corev1.Taint{cordoned},
		Images: -1}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the node is ready, with its taint", func() error {
		node := s.node(t, "n-0")
		if ready := condition(node, corev1.NodeReady); ready == nil || ready.Status != corev1.ConditionTrue {
			return fmt.Errorf("conditions %v", node.Status.Conditions)
		}
		if diff := cmp.Diff([]corev1.Taint{taint}, node.Spec.Taints); diff != "" {
			return fmt.Errorf("taints (-want +got):\n%s", diff)
		}
		return nil
	})
	node := s.node(t, "n-0")
	if len(node.Status.Images) != 50 || len(node.Labels) != 20 {
		t.Errorf("a node has %d images and %d labels, not 50 and 20", len(node.Status.Images), len(node.Labels))
	}
	lease, err := s.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "n-0", metav1.GetOptions{})
	if err != nil || lease.Spec.RenewTime == nil {
		t.Errorf("kwok does not renew the node's lease: %v", err)
	}
}

func (s *suite) podRuns(t *testing.T) {
	pods := s.client.CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "i", Image: "example.com/i"}},
			Containers:     []corev1.Container{{Name: "c", Image: "example.com/c"}},
		},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the pod runs", func() error {
		got, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got.Spec.NodeName != "n-0" || got.Status.Phase != corev1.PodRunning || got.Status.PodIP == "" ||
			len(got.Status.ContainerStatuses) != 1 || !got.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("on node %q with status %+v", got.Spec.NodeName, got.Status)
		}
		return nil
	})
	if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the pod is gone", func() error {
		_, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the deleted pod is there"), err)
	})
}

// kwokKeepsOthers has kwok write the node's status twice, by a kubelet that turns not ready and ready again.
func (s *suite) kwokKeepsOthers(t *testing.T) {
	since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	foreign := []corev1.NodeCondition{
		{Type: "projectcalico.org/CalicoReady", Status: corev1.ConditionFalse, Reason: "Starting", LastHeartbeatTime: since,
			LastTransitionTime: since},
		{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRoute", LastHeartbeatTime: since,
			LastTransitionTime: since},
	}
	s.patch(t, "n-0", map[string]any{"status": map[string]any{"conditions": foreign}}, "status")
	pressure := *condition(s.node(t, "n-0"), corev1.NodeMemoryPressure)

	s.setKubelet(t, "not-ready")
	Eventually(t, "the node is not ready", func() error {
		node := s.node(t, "n-0")
		if ready := condition(node, corev1.NodeReady); ready.Status != corev1.ConditionFalse {
			return fmt.Errorf("Ready is %s", ready.Status)
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady && taint.Effect == corev1.TaintEffectNoExecute {
				return nil
			}
		}
		return fmt.Errorf("the controller manager has not tainted the node: %v", node.Spec.Taints)
	})
	s.setKubelet(t, "")
	Eventually(t, "the node is ready again", func() error {
		if ready := condition(s.node(t, "n-0"), corev1.NodeReady); ready.Status != corev1.ConditionTrue {
			return fmt.Errorf("Ready is %s", ready.Status)
		}
		return nil
	})

	node := s.node(t, "n-0")
	for _, want := range foreign {
		got := condition(node, want.Type)
		if got == nil {
			t.Errorf("condition %s is lost", want.Type)
		} else if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("condition %s (-want +got):\n%s", want.Type, diff)
		}
	}
	after := condition(node, corev1.NodeMemoryPressure)
	if !after.LastTransitionTime.Equal(&pressure.LastTransitionTime) || after.Status != pressure.Status {
		t.Errorf("a condition that did not change was %v and is %v", pressure, after)
	}
	var mine bool
	for _, taint := range node.Spec.Taints {
		mine = mine || taint.Key == "example.com/mine"
	}
	if !mine {
		t.Errorf("the taint that the node registered with is lost: %v", node.Spec.Taints)
	}
	foreign[1].Status = corev1.ConditionFalse // pods are to land here again
	s.patch(t, "n-0", map[string]any{"status": map[string]any{"conditions": foreign}}, "status")
}

func (s *suite) kubeletRights(t *testing.T) {
	config, err := s.ConfigFor("system:node:x", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	kubelet, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	nodes := kubelet.CoreV1().Nodes()
	node := NewNode("x", NodeOptions{Unmanaged: true, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}})
	if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a kubelet registered with a role: %v", err)
	}
	delete(node.Labels, "node-role.kubernetes.io/worker")
	if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatalf("a kubelet could not register: %v", err)
	}
	defer func() { // pods are to land on nodes that run them
		if err := s.client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), "x",
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	label := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/worker":""}}}`)
	if _, err := nodes.Patch(t.Context(), "x", types.MergePatchType, label,
		metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a kubelet gave its node a role: %v", err)
	}
	status := []byte(`{"status":{"phase":"Running"}}`)
	if _, err := nodes.Patch(t.Context(), "n-0", types.MergePatchType, status, metav1.PatchOptions{},
		"status"); !apierrors.IsForbidden(err) {
		t.Errorf("a kubelet wrote the status of another node: %v", err)
	}
	kubeconfig, err := s.KubeconfigFor("system:node:x", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig %s: %v, %v", kubeconfig, info, err)
	}
}

func (s *suite) controllerNames(t *testing.T) {
	const want = "system:serviceaccount:kube-system:node-controller"
	users := map[string]int{}
	events, err := ReadAudit[struct{ User struct{ Username string } }](s.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		users[e.User.Username]++
	}
	if users[want] == 0 {
		t.Errorf("nodes were written by %v, never by %s", users, want)
	}
}

func (s *suite) apiServerOutage(t *testing.T) {
	url := s.Config().Host
	if err := s.APIServer.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.CoreV1().Nodes().Get(t.Context(), "n-0", metav1.GetOptions{}); err == nil {
		t.Error("a stopped API server answers")
	}
	if err := s.APIServer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Config().Host != url {
		t.Errorf("the API server moved from %s to %s", url, s.Config().Host)
	}
	s.node(t, "n-0") // by the client from before

	for range 5 {
		if err := s.APIServer.Pause(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := s.client.CoreV1().Nodes().Get(ctx, "n-0", metav1.GetOptions{})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a paused API server: %v", err)
		}
		if err := s.APIServer.Resume(); err != nil {
			t.Fatal(err)
		}
		s.node(t, "n-0")
	}
}

func (s *suite) controllerManagerRestart(t *testing.T) {
	old := s.ControllerManager.PID()
	if err := s.ControllerManager.Kill(); err != nil {
		t.Fatal(err)
	}
	if s.ControllerManager.PID() != 0 || gone(old) != nil {
		t.Errorf("the controller manager was killed and runs")
	}
	if err := s.ControllerManager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.ControllerManager.Start(t.Context()); err == nil {
		t.Error("a running component was started a second time")
	}
}

func (s *suite) stopLeavesNothing(t *testing.T) {
	own, err := s.Run(t.Context(), Process{Name: "own", Path: "/bin/sh", Args: []string{"-c", "exec sleep 600"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Kwok.Pause(); err != nil { // a paused one must end too
		t.Fatal(err)
	}
	pids := []int{s.guard.shell.Process.Pid}
	for _, c := range []*Component{s.Etcd, s.APIServer, s.ControllerManager, s.Scheduler, s.Kwok, own} {
		if c.PID() == 0 {
			t.Errorf("%s does not run", c.process.Name)
		}
		pids = append(pids, c.PID())
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if err := gone(pid); err != nil {
			t.Error(err)
		}
	}
	if err := removed(s.Dir()); err != nil {
		t.Error(err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
}

func (s *suite) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := s.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func (s *suite) setKubelet(t *testing.T, state string) {
	t.Helper()
	s.patch(t, "n-0", map[string]any{"metadata": map[string]any{"annotations": map[string]any{KubeletAnnotation: state}}})
}

func (s *suite) patch(t *testing.T, name string, patch any, subresources ...string) {
	t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, data, metav1.PatchOptions{},
		subresources...)
	if err != nil {
		t.Fatal(err)
	}
}

func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
