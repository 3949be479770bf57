// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/ledger"
)

const (
	cniRule  = "network-readiness-rule"
	cniPods  = 6 // of which three fit on a node
	cniNodes = 3
)

// cniTest is the walk-through of examples/cni-readiness.
type cniTest struct {
	*env
	ledger   *ledger.Ledger
	endpoint *endpoint
}

// TestCNIExample is one test with an order: the walk-through, as it is written.
func TestCNIExample(t *testing.T) {
	taint := corev1.Taint{Key: "readiness.k8s.io/NetworkReady", Effect: corev1.TaintEffectNoSchedule}
	c := &cniTest{env: newPool(t, 0), ledger: &ledger.Ledger{Condition: "projectcalico.org/CalicoReady", Taint: taint}}
	logged := len(c.Operator.Log()) // by other tests' doing
	for i := range cniNodes {
		c.Nodes = append(c.Nodes, fmt.Sprintf("cni-%d", i))
	}
	follower, err := ledger.Follow(t.Context(), c.Cluster, c.ledger, client.MatchingLabels{"app": "cni-example"})
	c.Must(err)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the files apply", c.applyFiles},
		{"kubelets register with the taint and pods wait", c.register},
		{"the rule adopts the taint once the nodes have their label", c.label},
		{"pods wait while Calico answers 503", c.calicoStarts},
		{"pods land when Calico answers 200", c.calicoIsUp},
		{"a node that has completed the rule is left alone", c.calicoFails},
		{"a deleted rule leaves nothing on the nodes", c.deleteRule},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow() // the steps that follow need this one
		}
	}
	c.Must(follower.Settle(t.Context()))
	if s := c.snapshot(); len(s.Violations) > 0 || s.Bound != cniPods {
		t.Errorf("%d pods were bound, too early: %q", s.Bound, s.Violations)
	}
	for _, line := range c.Operator.Log()[logged:] { // it has the permissions that an installation gives it
		if strings.Contains(line, "forbidden") {
			t.Errorf("the operator lacks a permission: %s", line)
		}
	}
}

func (c *cniTest) applyFiles(t *testing.T) {
	c.ApplyFile(cluster.Example("cni-readiness", "network-readiness-rule.yaml"))
	c.ApplyFile(cluster.Example("cni-readiness", "cni-reporter-ds.yaml"))
	// The script, with something small in the place of Calico's own manifest.
	manifest := filepath.Join(t.TempDir(), "calico.yaml")
	calico := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: calico-config, namespace: kube-system}\n"
	c.Must(os.WriteFile(manifest, []byte(calico), 0o600))
	script := exec.CommandContext(t.Context(), "sh", cluster.Example("cni-readiness", "apply-calico.sh"),
		"--context=localcluster")
	script.Dir = t.TempDir() // it finds its files wherever it is called
	script.Env = append(os.Environ(), "CALICO_MANIFEST="+manifest, "KUBECONFIG="+c.Kubeconfig(),
		"PATH="+c.Assets()+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, err := c.Clientset.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "calico-config", metav1.GetOptions{})
	if err != nil {
		t.Errorf("the script has not applied the manifest: %v", err)
	}
}

// register creates the nodes as their kubelets do, which may not give them the label that the rule selects.
func (c *cniTest) register(t *testing.T) {
	for _, name := range c.Nodes {
		c.Must(c.Register(t.Context(), name, cluster.NodeOptions{Taints: []corev1.Taint{
			{Key: "readiness.k8s.io/NetworkReady", Value: "pending", Effect: corev1.TaintEffectNoSchedule},
		}}))
		c.Discard(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	c.Must(c.Deploy(t.Context(), "cni-example", cniPods, "10", nil))
	c.Discard(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "cni-example", Namespace: "default"}})
	c.Eventually("the pods wait, and only for the taint", func() error {
		s := c.snapshot()
		for _, r := range s.Rows {
			if !r.Held() || r.OtherTaints > 0 {
				return fmt.Errorf("%+v", r)
			}
		}
		if s.Pods != cniPods || len(s.Rows) != cniNodes {
			return fmt.Errorf("%d pods, %d nodes", s.Pods, len(s.Rows))
		}
		return nil
	})
	// Whether they run there is up to kwok, which may miss pods that are bound while it is only getting to know the node.
	c.Eventually("the reporter's pods are placed on the tainted nodes", func() error {
		pods := &corev1.PodList{}
		labels := client.MatchingLabels{"app.kubernetes.io/name": "cni-reporter"}
		if err := c.Client.List(t.Context(), pods, client.InNamespace("kube-system"), labels); err != nil {
			return err
		}
		without := slices.Clone(c.Nodes)
		for i := range pods.Items {
			without = slices.DeleteFunc(without, func(name string) bool { return name == pods.Items[i].Spec.NodeName })
		}
		if len(without) > 0 {
			return fmt.Errorf("none on %v", without)
		}
		return nil
	})
}

func (c *cniTest) label(t *testing.T) {
	for _, name := range c.Nodes {
		c.PatchNode(name, `{"metadata":{"labels":{"node-role.kubernetes.io/worker":""}}}`)
	}
	c.Eventually("the status counts the nodes", c.Counts(cniRule, v1alpha1.NodeCounts{Matched: cniNodes, Held: cniNodes}))
	c.eventuallyEvent(t, "TaintAdopted")
	c.nothingBound(t)
}

// calicoStarts: from now on there is a reporter on each node, and Calico says that it is not ready.
func (c *cniTest) calicoStarts(t *testing.T) {
	r := reporterOf(c.env, cluster.Example("cni-readiness", "cni-reporter-ds.yaml"))
	condition := r.env("CONDITION_TYPE")
	if r.endpoint != "http://localhost:9099/readiness" || condition != string(c.ledger.Condition) {
		t.Fatalf("the reporter asks %s for %s", r.endpoint, condition)
	}
	c.endpoint = startEndpoint(c.T, calicoAddress)
	for _, name := range c.Nodes {
		r.movedTo(t, c.endpoint.address).start(c.env, name)
	}
	c.eventuallyCondition(t, corev1.ConditionFalse)
	c.nothingBound(t)
}

func (c *cniTest) calicoIsUp(t *testing.T) {
	c.endpoint.answer(t, http.StatusOK)
	c.eventuallyCondition(t, corev1.ConditionTrue)
	c.Eventually("all pods run on open nodes", func() error {
		if s := c.snapshot(); s.Running != cniPods || s.Held() > 0 {
			return fmt.Errorf("%d pods run, %d nodes are held", s.Running, s.Held())
		}
		return nil
	})
	c.Eventually("the status counts the nodes", c.Counts(cniRule, v1alpha1.NodeCounts{Matched: cniNodes, Ready: cniNodes}))
	c.eventuallyEvent(t, "TaintRemoved")
	c.eventuallyEvent(t, "BootstrapCompleted")
}

func (c *cniTest) calicoFails(t *testing.T) {
	c.endpoint.answer(t, http.StatusServiceUnavailable)
	c.eventuallyCondition(t, corev1.ConditionFalse)
	c.Consistently("bootstrap-only: the nodes stay open", 2*time.Second, func() error {
		if s := c.snapshot(); s.Held() > 0 {
			return fmt.Errorf("%d are held", s.Held())
		}
		return nil
	})
}

func (c *cniTest) deleteRule(t *testing.T) {
	rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: cniRule}}
	c.Must(c.Client.Delete(t.Context(), rule))
	c.Eventually("the rule is gone", c.Gone(rule))
	for _, name := range c.Nodes {
		for key := range c.Node(name).Annotations {
			if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) ||
				strings.HasPrefix(key, v1alpha1.BootstrapAnnotationPrefix) {
				t.Errorf("node %s has the annotation %s", name, key)
			}
		}
	}
}

// snapshot is the ledger's, with none but this test's nodes.
func (c *cniTest) snapshot() ledger.Snapshot {
	s := c.ledger.Snapshot()
	s.Rows = slices.DeleteFunc(s.Rows, func(r ledger.Row) bool { return !slices.Contains(c.Nodes, r.Name) })
	return s
}

func (c *cniTest) nothingBound(t *testing.T) {
	t.Helper()
	c.Consistently("the gate is closed", 2*time.Second, func() error {
		if s := c.snapshot(); s.Bound > 0 || s.Held() != cniNodes {
			return fmt.Errorf("%d pods are bound, %d nodes are held", s.Bound, s.Held())
		}
		return nil
	})
}

func (c *cniTest) eventuallyCondition(t *testing.T, want corev1.ConditionStatus) {
	t.Helper()
	c.Eventually(fmt.Sprintf("the reporters report %s", want), func() error {
		s := c.snapshot()
		for _, r := range s.Rows {
			if r.Condition != want {
				return fmt.Errorf("%s: %q", r.Name, r.Condition)
			}
		}
		return nil
	})
}

// eventuallyEvent waits until each node has an event of the reason.
func (c *cniTest) eventuallyEvent(t *testing.T, reason string) {
	t.Helper()
	c.Eventually("events "+reason, func() error {
		events, err := c.Clientset.EventsV1().Events("default").
			List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		reported := map[string]bool{}
		for i := range events.Items {
			reported[events.Items[i].Regarding.Name] = true
		}
		for _, name := range c.Nodes {
			if !reported[name] {
				return fmt.Errorf("none of node %s, but of %v", name, reported)
			}
		}
		return nil
	})
}
