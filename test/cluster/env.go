// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Env is a cluster as one test uses it: an error ends the test, and what the test creates is deleted when it ends.
type Env struct {
	*Cluster
	T testing.TB
}

// NewEnv returns the environment of a test. If the test fails, the end of the operator's log is logged.
func NewEnv(t testing.TB, c *Cluster) *Env {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() && c.Operator != nil {
			t.Logf("the end of the operator's log:\n%s", c.Operator.LogTail(15))
		}
	})
	return &Env{Cluster: c, T: t}
}

// Must ends the test if there is an error.
func (e *Env) Must(err error) {
	e.T.Helper()
	Must(e.T, err)
}

// Eventually repeats a check until it returns nil.
func (e *Env) Eventually(what string, check func() error) {
	e.T.Helper()
	Eventually(e.T, what, check)
}

// Create creates an object.
func (e *Env) Create(o client.Object) {
	e.T.Helper()
	e.Must(e.Client.Create(e.T.Context(), o))
	e.Discard(o)
}

// Discard removes an object when the test ends.
func (e *Env) Discard(o client.Object) {
	o, _ = o.DeepCopyObject().(client.Object)
	e.T.Cleanup(func() { e.Remove(o) })
}

// Remove deletes an object at once and waits until it is gone.
func (e *Env) Remove(o client.Object) {
	e.T.Helper()
	ctx := context.Background() // the test's own may have ended
	e.Eventually(o.GetName()+" is gone", func() error {
		err := e.Client.Delete(ctx, o, client.GracePeriodSeconds(0),
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// Gone is a check: an object does not exist.
func (e *Env) Gone(o client.Object) func() error {
	return func() error {
		current, _ := o.DeepCopyObject().(client.Object)
		if err := e.Client.Get(context.Background(), client.ObjectKeyFromObject(o), current); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is there, with finalizers %v: %w", o.GetName(), current.GetFinalizers(), err)
		}
		return nil
	}
}

// Apply applies objects and removes them when the test ends.
func (e *Env) Apply(objects ...*unstructured.Unstructured) {
	e.T.Helper()
	for _, o := range objects {
		e.Must(e.Cluster.Apply(e.T.Context(), o))
		e.Discard(o)
	}
}

// ApplyText applies the objects of a YAML text and removes them when the test ends.
func (e *Env) ApplyText(text string) []*unstructured.Unstructured {
	e.T.Helper()
	objects, err := ParseObjects([]byte(text))
	e.Must(err)
	e.Apply(objects...)
	return objects
}

// ApplyFile applies the objects of a YAML file and removes them when the test ends.
func (e *Env) ApplyFile(path string) []*unstructured.Unstructured {
	e.T.Helper()
	objects, err := ReadObjects(path)
	e.Must(err)
	e.Apply(objects...)
	return objects
}

// Edit reads an object, changes it and writes it, until no other writer comes between.
func (e *Env) Edit(o client.Object, change func()) {
	e.T.Helper()
	e.Eventually(o.GetName()+" is written", func() error {
		if err := e.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change()
		return e.Client.Update(context.Background(), o)
	})
}

// Node reads a node.
func (e *Env) Node(name string) *corev1.Node {
	e.T.Helper()
	n := &corev1.Node{}
	e.Must(e.Client.Get(e.T.Context(), client.ObjectKey{Name: name}, n))
	return n
}

// EditNode changes a node by Edit.
func (e *Env) EditNode(name string, change func(*corev1.Node)) {
	e.T.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	e.Edit(n, func() { change(n) })
}

// AddNode creates a small node.
func (e *Env) AddNode(name string, labels map[string]string) {
	e.T.Helper()
	e.Create(NewNode(name, NodeOptions{Labels: labels, Images: -1}))
}

// PatchNode merges a JSON text into a node; conditions of a status are merged by their type.
func (e *Env) PatchNode(name, patch string, subresources ...string) {
	e.T.Helper()
	_, err := e.Clientset.CoreV1().Nodes().Patch(e.T.Context(), name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresources...)
	e.Must(err)
}

// SetKubelet makes a simulated kubelet report that its node is ready, or that it is not.
func (e *Env) SetKubelet(node string, ready bool) {
	e.T.Helper()
	value := `"not-ready"`
	if ready {
		value = "null"
	}
	e.PatchNode(node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, KubeletAnnotation, value))
}

// Report sets a condition of a node.
func (e *Env) Report(node, condition string, ready bool) {
	e.T.Helper()
	e.Must(e.Cluster.Report(e.T.Context(), node, condition, ready))
}

// SetReady sets a node's condition Ready, as kubelet does.
func (e *Env) SetReady(node, status, reason string) {
	e.T.Helper()
	const ready = `{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q}]}}`
	e.PatchNode(node, fmt.Sprintf(ready, status, reason), "status")
}

// Account returns the kubeconfig of a service account with these permissions, which it has until the test ends.
func (e *Env) Account(namespace, name string, rules ...rbacv1.PolicyRule) string {
	e.T.Helper()
	meta := metav1.ObjectMeta{Name: "test-" + namespace + "-" + name}
	e.Create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
	e.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: namespace}},
	})
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
	kubeconfig, err := e.KubeconfigFor("system:serviceaccount:"+namespace+":"+name, groups...)
	e.Must(err)
	return kubeconfig
}

// Tainted is a check: a node has a taint with this key, or does not.
func (e *Env) Tainted(node, key string, want bool) func() error {
	return func() error {
		n := &corev1.Node{}
		if err := e.Client.Get(context.Background(), client.ObjectKey{Name: node}, n); err != nil {
			return err
		}
		if HasTaint(n, key) != want {
			return fmt.Errorf("node %s has taints %v; %s wanted: %t", node, n.Spec.Taints, key, want)
		}
		return nil
	}
}

// Counts is a check: a rule's status counts its nodes like this.
func (e *Env) Counts(rule string, want v1alpha1.NodeCounts) func() error {
	return func() error {
		r := &v1alpha1.NodeReadinessRule{}
		if err := e.Client.Get(context.Background(), client.ObjectKey{Name: rule}, r); err != nil {
			return err
		}
		if r.Status.Nodes == nil || *r.Status.Nodes != want {
			return fmt.Errorf("rule %s counts %+v, want %+v", rule, r.Status.Nodes, want)
		}
		return nil
	}
}

// LookedAt makes a change of each node that decides nothing, and waits until the operator has looked at so many
// nodes again, whether or not it is going to look at them once more by itself.
func (e *Env) LookedAt(nodes []string) {
	e.T.Helper()
	looks := func() (sum float64) {
		metrics := e.Metrics()
		for _, result := range []string{"success", "requeue_after"} {
			n, err := Metric(metrics, fmt.Sprintf(`controller_runtime_reconcile_total{controller="node",result=%q}`, result))
			e.Must(err)
			sum += n
		}
		return sum
	}
	before := looks()
	for _, name := range nodes {
		e.PatchNode(name, fmt.Sprintf(`{"metadata":{"labels":{"example.com/looks":"%v"}}}`, before))
	}
	e.Eventually("the operator looks at each node", func() error {
		if n := looks() - before; n < float64(len(nodes)) {
			return fmt.Errorf("it looked %v times", n)
		}
		return nil
	})
}

// Metrics returns the operator's metrics.
func (e *Env) Metrics() string {
	e.T.Helper()
	metrics, err := e.Operator.Metrics(e.T.Context())
	e.Must(err)
	return metrics
}
