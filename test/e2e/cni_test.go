// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/ledger"
	"github.com/nodegate/nodegate/test/demo/stage"
)

const (
	cniRule  = "network-readiness-rule"
	cniPods  = 6 // of which three fit on a node
	cniNodes = 3
)

// cniTest is the walk-through of examples/cni-readiness.
type cniTest struct {
	*stage.Stage
	whole    *testing.T
	ledger   *ledger.Ledger
	endpoint *endpoint

	reporters []*cluster.Component
}

// TestCNIExample is one test with an order: the walk-through, as it is written.
func TestCNIExample(t *testing.T) {
	c := &cniTest{Stage: sharedCluster(t), whole: t, ledger: &ledger.Ledger{
		Condition: "projectcalico.org/CalicoReady",
		Taint:     corev1.Taint{Key: "readiness.k8s.io/NetworkReady", Effect: corev1.TaintEffectNoSchedule},
	}}
	t.Cleanup(c.cleanUp)
	follower, err := c.Follow(t.Context(), c.ledger, "app=cni-example")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the files apply", c.applyFiles},
		{"kubelets register with the taint and pods wait", c.register},
		{"the rule adopts the taint once somebody labels the nodes", c.label},
		{"pods wait while Calico answers 503", c.calicoStarts},
		{"pods land when Calico answers 200", c.calicoIsUp},
		{"a node that has completed the rule is left alone", c.calicoFails},
		{"a deleted rule leaves nothing on the nodes", c.deleteRule},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow() // the steps that follow have no ground
		}
	}
	if err := follower.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := c.snapshot(); len(s.Violations) > 0 || s.Bound != cniPods {
		t.Errorf("%d pods were bound, too early: %q", s.Bound, s.Violations)
	}
	for _, line := range c.Log() { // it has the rights that an installation gives it
		if strings.Contains(line, "forbidden") {
			t.Errorf("the operator lacks a right: %s", line)
		}
	}
}

func (c *cniTest) applyFiles(t *testing.T) {
	for _, file := range []string{"network-readiness-rule.yaml", "cni-reporter-ds.yaml"} {
		if _, err := c.Apply(t.Context(), c.Example("cni-readiness", file)); err != nil {
			t.Fatal(err)
		}
	}
	// The script, with something small in the place of Calico's own manifest.
	manifest := filepath.Join(t.TempDir(), "calico.yaml")
	calico := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: calico-config, namespace: kube-system}\n"
	if err := os.WriteFile(manifest, []byte(calico), 0o600); err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "sh", c.Example("cni-readiness", "apply-calico.sh"), "--context=localcluster")
	script.Dir = t.TempDir() // it finds its files wherever it is called
	script.Env = append(os.Environ(), "CALICO_MANIFEST="+manifest, "KUBECONFIG="+c.Kubeconfig(),
		"PATH="+c.Assets()+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := c.Clientset.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "calico-config", metav1.GetOptions{}); err != nil {
		t.Errorf("the script has not applied the manifest: %v", err)
	}
}

// register creates the nodes as their kubelets do, which may not give them the label that the rule selects.
func (c *cniTest) register(t *testing.T) {
	for _, name := range cniNodeNames() {
		config, err := c.ConfigFor("system:node:"+name, "system:nodes")
		if err != nil {
			t.Fatal(err)
		}
		kubelet, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		node := cluster.NewNode(name, cluster.NodeOptions{Taints: []corev1.Taint{
			{Key: "readiness.k8s.io/NetworkReady", Value: "pending", Effect: corev1.TaintEffectNoSchedule},
		}})
		if _, err := kubelet.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Deploy(t.Context(), "cni-example", cniPods, "10"); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "the pods wait, and only for the taint", func() error {
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
	cluster.Eventually(t, "the reporter's pods are placed on the tainted nodes", func() error {
		pods, err := c.Clientset.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cni-reporter"})
		if err != nil {
			return err
		}
		without := cniNodeNames()
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
	label := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/worker":""}}}`)
	for _, name := range cniNodeNames() {
		if _, err := c.Clientset.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.eventuallyCounts(t, v1alpha1.NodeCounts{Matched: cniNodes, Held: cniNodes})
	c.eventuallyEvent(t, "TaintAdopted")
	c.nothingBound(t)
}

// calicoStarts: from now on there is a reporter on each node, and Calico says that it is not ready.
func (c *cniTest) calicoStarts(t *testing.T) {
	r := reporterOf(t, c.Stage, c.Example("cni-readiness", "cni-reporter-ds.yaml"))
	if condition := r.env("CONDITION_TYPE"); r.endpoint != "http://localhost:9099/readiness" || condition != string(c.ledger.Condition) {
		t.Fatalf("the reporter asks %s for %s", r.endpoint, condition)
	}
	c.endpoint = startEndpoint(c.whole, calicoAddress)
	for _, name := range cniNodeNames() {
		c.reporters = append(c.reporters, r.movedTo(t, c.endpoint.address).start(t, c.Stage, name))
	}
	c.eventuallyCondition(t, corev1.ConditionFalse)
	c.nothingBound(t)
}

func (c *cniTest) calicoIsUp(t *testing.T) {
	c.endpoint.answer(t, http.StatusOK)
	c.eventuallyCondition(t, corev1.ConditionTrue)
	cluster.Eventually(t, "all pods run on open nodes", func() error {
		if s := c.snapshot(); s.Running != cniPods || s.Held() > 0 {
			return fmt.Errorf("%d pods run, %d nodes are held", s.Running, s.Held())
		}
		return nil
	})
	c.eventuallyCounts(t, v1alpha1.NodeCounts{Matched: cniNodes, Ready: cniNodes})
	c.eventuallyEvent(t, "TaintRemoved")
	c.eventuallyEvent(t, "BootstrapCompleted")
}

func (c *cniTest) calicoFails(t *testing.T) {
	c.endpoint.answer(t, http.StatusServiceUnavailable)
	c.eventuallyCondition(t, corev1.ConditionFalse)
	throughout(t, "bootstrap-only: the nodes stay open", func() error {
		if s := c.snapshot(); s.Held() > 0 {
			return fmt.Errorf("%d are held", s.Held())
		}
		return nil
	})
}

func (c *cniTest) deleteRule(t *testing.T) {
	rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: cniRule}}
	if err := c.Client.Delete(t.Context(), rule); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "the rule is gone", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(rule), rule); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there, with the finalizers %v (%w)", rule.Finalizers, err)
		}
		return nil
	})
	for _, name := range cniNodeNames() {
		node, err := c.Clientset.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for key := range node.Annotations {
			if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) || strings.HasPrefix(key, v1alpha1.BootstrapAnnotationPrefix) {
				t.Errorf("node %s bears the annotation %s", name, key)
			}
		}
	}
}

func cniNodeNames() []string {
	names := make([]string, 0, cniNodes)
	for i := range cniNodes {
		names = append(names, fmt.Sprintf("cni-%d", i))
	}
	return names
}

// snapshot is the ledger's, with none but this test's nodes.
func (c *cniTest) snapshot() ledger.Snapshot {
	s := c.ledger.Snapshot()
	s.Rows = slices.DeleteFunc(s.Rows, func(r ledger.Row) bool { return !slices.Contains(cniNodeNames(), r.Name) })
	return s
}

// cleanUp leaves to other tests a cluster without pods and nodes of this one.
func (c *cniTest) cleanUp() {
	ctx := context.Background() // the test's own is over
	for _, r := range c.reporters {
		if c.whole.Failed() {
			log, _ := os.ReadFile(r.LogFile())
			c.whole.Logf("a reporter's log:\n%s", log)
		}
		if err := r.Stop(); err != nil {
			c.whole.Error(err)
		}
	}
	for _, o := range []client.Object{
		&v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: cniRule}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "cni-example", Namespace: "default"}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "cni-reporter", Namespace: "kube-system"}},
	} {
		_ = c.Client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground))
	}
	for _, name := range cniNodeNames() {
		_ = c.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

func (c *cniTest) nothingBound(t *testing.T) {
	t.Helper()
	throughout(t, "the gate is closed", func() error {
		if s := c.snapshot(); s.Bound > 0 || s.Held() != cniNodes {
			return fmt.Errorf("%d pods are bound, %d nodes are held", s.Bound, s.Held())
		}
		return nil
	})
}

func (c *cniTest) eventuallyCondition(t *testing.T, want corev1.ConditionStatus) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("the reporters report %s", want), func() error {
		s := c.snapshot()
		for _, r := range s.Rows {
			if r.Condition != want {
				return fmt.Errorf("%s: %q", r.Name, r.Condition)
			}
		}
		return nil
	})
}

func (c *cniTest) eventuallyCounts(t *testing.T, want v1alpha1.NodeCounts) {
	t.Helper()
	cluster.Eventually(t, "the rule's status", func() error {
		rule := &v1alpha1.NodeReadinessRule{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: cniRule}, rule); err != nil {
			return err
		}
		if rule.Status.Nodes == nil || *rule.Status.Nodes != want {
			return fmt.Errorf("counts %+v, want %+v", rule.Status.Nodes, want)
		}
		return nil
	})
}

// eventuallyEvent waits until each node has an event of the reason.
func (c *cniTest) eventuallyEvent(t *testing.T, reason string) {
	t.Helper()
	cluster.Eventually(t, "events "+reason, func() error {
		events, err := c.Clientset.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		told := map[string]bool{}
		for i := range events.Items {
			told[events.Items[i].Regarding.Name] = true
		}
		for _, name := range cniNodeNames() {
			if !told[name] {
				return fmt.Errorf("none of node %s, but of %v", name, told)
			}
		}
		return nil
	})
}
