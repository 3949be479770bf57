// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/page"
)

// warm is the label by which the init pod comes to a node: the simulated kubelets find every container ready at once.
const warm = "example.com/warm"

// What is left in kube-system of a handler that is stopped.
const handler = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: nodetaintshandler, namespace: kube-system}
spec:
  selector: {matchLabels: {app: nodetaintshandler}}
  template:
    metadata: {labels: {app: nodetaintshandler}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: handler, image: "registry.example.com/nodetaintshandler:v1.6"}]
---
apiVersion: v1
kind: Service
metadata: {name: node-startup-webhook, namespace: kube-system}
spec: {selector: {app: nodetaintshandler}, ports: [{port: 443}]}
---
apiVersion: v1
kind: Secret
metadata: {name: node-startup-webhook-tls, namespace: kube-system}
`

// joining has a node join every now and then, until stop gives the names of all of them.
func (e *env) joining() (stop func() []string) {
	e.T.Helper()
	ctx, cancel := context.WithCancel(e.T.Context())
	var names []string
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := 0; ; i++ {
			n := cluster.NewNode(fmt.Sprintf("joining-%d", i), cluster.NodeOptions{Images: -1})
			if err := e.Client.Create(context.WithoutCancel(ctx), n); err != nil {
				failed <- err
				return
			}
			names = append(names, n.Name)
			select {
			case <-ctx.Done():
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	end := func() []string {
		cancel()
		if err := <-failed; err != nil {
			e.T.Errorf("a node could not join: %v", err)
		}
		return names
	}
	e.T.Cleanup(func() {
		for _, name := range end() {
			e.Remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	})
	return end
}

// initDaemonSet applies the init DaemonSet of the example, whose pods come where the test says.
func (e *env) initDaemonSet() {
	e.T.Helper()
	objects := e.ApplyFile(cluster.Example("startup-taint", "init-daemonset.yaml"))
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: objects[0].GetNamespace(),
		Name: objects[0].GetName()}}
	e.Edit(ds, func() { ds.Spec.Template.Spec.NodeSelector = map[string]string{warm: "yes"} })
}

// released waits until nodes were released, once and for good.
func (e *env) released(nodes ...string) {
	e.T.Helper()
	for _, n := range nodes {
		e.Eventually(n+" keeps its taint until its init pod is ready, and then loses it", e.gates(n, true, false))
	}
}

func TestFromAnInitTaintWebhook(t *testing.T) {
	e := newEnv(t)
	p := page.Open(e.Env, "migrate-from-init-taint-webhook.md")
	e.Discard(&v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: "startup-taint"}})

	// As the old handler leaves a cluster.
	e.AddNode("older-than-the-webhook", nil)
	stopOld := e.initWebhook()
	old := e.ApplyText(handler)
	e.initDaemonSet()
	for _, name := range []string{"done", "done-and-cold", "waiting-0", "waiting-1", "opened-early"} {
		e.AddNode(name, nil)
	}
	e.AddNode("system", map[string]string{"kubernetes.azure.com/mode": "system"})
	e.warmUp("done")
	e.complete("done", 1700000001)
	e.complete("done-and-cold", 1700000002)
	open := []string{"older-than-the-webhook", "done", "done-and-cold", "system"}
	past := time.Now()
	e.Eventually("all of that is older than the rule", func() error { // times of creation are in whole seconds
		if time.Since(past) < 1100*time.Millisecond {
			return errors.New("it is not")
		}
		return nil
	})

	e.follow(initTaint)
	stop := e.joining()

	p.Must("kubectl apply -f startup-taint.yaml")
	p.Must(`kubectl wait nrr/startup-taint ` +
		`--for=jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=DryRun --timeout=60s`)
	p.Becomes("the rehearsal taints no node", "^0 pending, 0 to add: ",
		`kubectl get nrr startup-taint -o jsonpath='{.status.nodes.pending} pending, `+
			`{.status.dryRunResults.taintsToAdd} to add: {.status.dryRunResults.summary}'`)

	p.Must(`kubectl patch nrr startup-taint --type=merge -p '{"spec":{"dryRun":false}}'`)
	p.Becomes("nodes are tainted at creation by the rule", v1alpha1.RecordAnnotationPrefix,
		"kubectl create -f probe.yaml --dry-run=server -o jsonpath='{.metadata.annotations}'")
	e.Eventually("the waiting nodes are taken over", e.recorded("waiting-0", "waiting-1", "opened-early"))
	e.complete("opened-early", 1700000003)
	e.Eventually("what the old controller opens too early is held again", e.gates("opened-early", true, false, true))

	p.Must("kubectl delete mutatingwebhookconfiguration node-startup-taint")
	p.Must("kubectl -n kube-system scale deployment nodetaintshandler --replicas=0")
	e.born("new nodes are tainted by the rule alone", func(n *corev1.Node) bool {
		return n.Annotations[seenBy] == "" && cluster.HasTaint(n, initTaint)
	})
	stopOld()
	e.AddNode("last", nil) // when the old webhook is gone for good
	joined := append(stop(), "last")

	if out := p.Must("kubectl get nrr startup-taint"); !strings.Contains(out, "startup-taint") {
		t.Error(out)
	}
	nodes := p.Must(`kubectl get nodes -o custom-columns='NAME:.metadata.name,TAINTS:.spec.taints[*].key,` +
		`DONE:.metadata.annotations.startup\.k8s\.io/completedAt'`)
	if !strings.Contains(nodes, "1700000001") || !strings.Contains(nodes, initTaint) {
		t.Error(nodes)
	}

	// The init pods get ready, one node after the other.
	waiting := append([]string{"waiting-0", "waiting-1"}, joined...)
	e.warmUp(waiting...)
	e.released(waiting...)
	e.settle()
	for _, n := range open {
		if err := e.gates(n, false)(); err != nil {
			t.Error(err)
		}
	}
	e.annotated("done", "1700000001")
	e.annotated("done-and-cold", "1700000002")
	e.annotated("waiting-0", "")

	e.goBack(p)

	for _, c := range []string{"deployment nodetaintshandler", "service node-startup-webhook",
		"secret node-startup-webhook-tls"} {
		p.Must("kubectl -n kube-system delete " + c)
	}
	for _, o := range old {
		e.Remove(o)
	}
	p.Done()
}

// goBack: the old handler comes again while the rule holds a node.
func (e *env) goBack(p *page.Page) {
	e.T.Helper()
	e.AddNode("held-by-the-rule", nil)
	p.Must("kubectl -n kube-system scale deployment nodetaintshandler --replicas=1")
	e.initWebhook()
	p.Must(`kubectl patch nrr startup-taint --type=merge -p '{"spec":{"suspend":true}}'`)
	e.born("the rule claims no further node", func(n *corev1.Node) bool {
		for key := range n.Annotations {
			if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) {
				return false
			}
		}
		return cluster.HasTaint(n, initTaint)
	})
	e.AddNode("held-by-the-webhook", nil)
	e.Eventually("the rule holds a node", e.gates("held-by-the-rule", true))
	e.warmUp("held-by-the-rule", "opened-early")
	for _, node := range []string{"held-by-the-rule", "opened-early"} {
		e.EditNode(node, func(n *corev1.Node) { // as the old controller does
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == initTaint })
		})
	}
	p.Must("kubectl wait nrr/startup-taint --for=jsonpath='{.status.nodes.held}'=0 --timeout=30m")
	e.settle()
	if err := e.gates("held-by-the-rule", true, false)(); err != nil {
		e.T.Error(err)
	}
	if err := e.gates("opened-early", true, false, true, false)(); err != nil {
		e.T.Error(err)
	}
	p.Must("kubectl delete nrr startup-taint")
	e.Eventually("the webhook's taint is left to it", e.gates("held-by-the-webhook", true))
}

// recorded is a check: nodes are claimed by a rule.
func (e *env) recorded(nodes ...string) func() error {
	return func() error {
		for _, name := range nodes {
			claimed := false
			annotations := e.Node(name).Annotations
			for key, value := range annotations {
				claimed = claimed || strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) && strings.Contains(value, initTaint)
			}
			if !claimed {
				return fmt.Errorf("node %s has annotations %v", name, annotations)
			}
		}
		return nil
	}
}

// annotated checks when a node was completed; empty: at any time.
func (e *env) annotated(name, want string) {
	e.T.Helper()
	if got := e.Node(name).Annotations[completedAt]; got == "" || want != "" && got != want {
		e.T.Errorf("node %s: completed at %q, want %q", name, got, want)
	}
}
