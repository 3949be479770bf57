// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// warm is the label by which the init pod comes to a node: the simulated kubelets find every container ready at once.
const warm = "example.com/warm"

// What is left in kube-system of a handler that is stopped.
const (
	handler = `
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
`
	handlerService = `
apiVersion: v1
kind: Service
metadata: {name: node-startup-webhook, namespace: kube-system}
spec: {selector: {app: nodetaintshandler}, ports: [{port: 443}]}
`
	handlerSecret = `
apiVersion: v1
kind: Secret
metadata: {name: node-startup-webhook-tls, namespace: kube-system}
`
)

// joining has a node join every now and then, until stop gives the names of all of them.
func (w *world) joining(t *testing.T) (stop func() []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var names []string
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := 0; ; i++ {
			n := cluster.NewNode(fmt.Sprintf("joining-%d", i), cluster.NodeOptions{Images: -1})
			if err := w.Client.Create(context.WithoutCancel(ctx), n); err != nil {
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
			t.Errorf("a node could not join: %v", err)
		}
		return names
	}
	t.Cleanup(func() {
		for _, name := range end() {
			n := &corev1.Node{}
			n.Name = name
			w.remove(t, n)
		}
	})
	return end
}

// warmUp is the init DaemonSet of the example, whose pods come where the test says.
func (w *world) warmUp(t *testing.T) {
	t.Helper()
	objects, err := w.Apply(t.Context(), w.Example("startup-taint", "init-daemonset.yaml"))
	must(t, err)
	w.discard(t, objects[0])
	ds := &appsv1.DaemonSet{}
	cluster.Eventually(t, "the DaemonSet waits for the test", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(objects[0]), ds); err != nil {
			return err
		}
		ds.Spec.Template.Spec.NodeSelector = map[string]string{warm: "yes"}
		return w.Client.Update(t.Context(), ds)
	})
}

// warmed has the init pod come to nodes.
func (w *world) warmed(t *testing.T, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		w.patch(t, n, fmt.Sprintf(`{"metadata":{"labels":{%q:"yes"}}}`, warm))
	}
}

// released waits until nodes were released, once and for good.
func (w *world) released(t *testing.T, h *history, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		cluster.Eventually(t, n+" keeps its taint until its init pod is ready, and then loses it for good", func() error { return h.is(n, true, false) })
	}
}

func TestFromAnInitTaintWebhook(t *testing.T) {
	w := sharedCluster(t)
	p := open(t, w, "migrate-from-init-taint-webhook.md")
	t.Cleanup(func() {
		r := &v1alpha1.NodeReadinessRule{}
		r.Name = "startup-taint"
		w.remove(t, r)
	})

	// As the old handler leaves a cluster.
	w.node(t, "older-than-the-webhook", nil)
	stopOld := w.initWebhook(t)
	old := w.apply(t, handler, handlerService, handlerSecret)
	w.warmUp(t)
	for _, name := range []string{"done", "done-and-cold", "waiting-0", "waiting-1", "opened-early"} {
		w.node(t, name, nil)
	}
	w.node(t, "system", map[string]string{"kubernetes.azure.com/mode": "system"})
	w.warmed(t, "done")
	w.complete(t, "done", 1700000001)
	w.complete(t, "done-and-cold", 1700000002)
	open := []string{"older-than-the-webhook", "done", "done-and-cold", "system"}
	past := time.Now()
	cluster.Eventually(t, "all of that is older than the rule", func() error { // times of creation are in whole seconds
		if time.Since(past) < 1100*time.Millisecond {
			return errors.New("it is not")
		}
		return nil
	})

	h := w.follow(t, initTaint)
	stop := w.joining(t)

	p.must("kubectl apply -f startup-taint.yaml")
	p.must(`kubectl wait nrr/startup-taint --for=jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=DryRun --timeout=60s`)
	cluster.Eventually(t, "the rehearsal taints no node", func() error {
		out := p.must(`kubectl get nrr startup-taint -o jsonpath='{.status.nodes.pending} pending, {.status.dryRunResults.taintsToAdd} to add: {.status.dryRunResults.summary}'`)
		if !strings.HasPrefix(out, "0 pending, 0 to add: ") {
			return errors.New(out)
		}
		return nil
	})

	p.must(`kubectl patch nrr startup-taint --type=merge -p '{"spec":{"dryRun":false}}'`)
	cluster.Eventually(t, "nodes are born gated by the rule", func() error {
		out, err := p.run("kubectl create -f probe.yaml --dry-run=server -o jsonpath='{.metadata.annotations}'")
		if err == nil && !strings.Contains(out, v1alpha1.RecordAnnotationPrefix) {
			err = errors.New(out)
		}
		return err
	})
	cluster.Eventually(t, "the waiting nodes are taken over", func() error { return w.recorded(t.Context(), "waiting-0", "waiting-1", "opened-early") })
	w.complete(t, "opened-early", 1700000003)
	cluster.Eventually(t, "what the old controller opens too early is held again", func() error { return h.is("opened-early", true, false, true) })

	p.must("kubectl delete mutatingwebhookconfiguration node-startup-taint")
	p.must("kubectl -n kube-system scale deployment nodetaintshandler --replicas=0")
	w.born(t, "nodes are born gated by the rule alone", func(n *corev1.Node) bool { return n.Annotations[seenBy] == "" && tainted(n, initTaint) })
	stopOld()
	w.node(t, "last", nil) // when the old webhook is gone for good
	joined := append(stop(), "last")

	if out := p.must("kubectl get nrr startup-taint"); !strings.Contains(out, "startup-taint") {
		t.Error(out)
	}
	if out := p.must(`kubectl get nodes -o custom-columns='NAME:.metadata.name,TAINTS:.spec.taints[*].key,DONE:.metadata.annotations.startup\.k8s\.io/completedAt'`); !strings.Contains(out, "1700000001") || !strings.Contains(out, initTaint) {
		t.Error(out)
	}

	// The init pods get ready, one node after the other.
	waiting := append([]string{"waiting-0", "waiting-1"}, joined...)
	w.warmed(t, waiting...)
	w.released(t, h, waiting...)
	for _, n := range open {
		if err := h.is(n, false); err != nil {
			t.Error(err)
		}
	}
	w.annotated(t, "done", "1700000001")
	w.annotated(t, "done-and-cold", "1700000002")
	w.annotated(t, "waiting-0", "")

	w.goBack(t, p, h)

	for _, c := range []string{"deployment nodetaintshandler", "service node-startup-webhook", "secret node-startup-webhook-tls"} {
		p.must("kubectl -n kube-system delete " + c)
	}
	for _, o := range old {
		w.remove(t, o)
	}
	p.done()
}

// goBack: the old handler comes again while the rule holds a node.
func (w *world) goBack(t *testing.T, p *page, h *history) {
	t.Helper()
	w.node(t, "held-by-the-rule", nil)
	p.must("kubectl -n kube-system scale deployment nodetaintshandler --replicas=1")
	w.initWebhook(t)
	p.must(`kubectl patch nrr startup-taint --type=merge -p '{"spec":{"suspend":true}}'`)
	w.born(t, "the rule claims no further node", func(n *corev1.Node) bool {
		for key := range n.Annotations {
			if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) {
				return false
			}
		}
		return tainted(n, initTaint)
	})
	w.node(t, "held-by-the-webhook", nil)
	if err := h.seen(t, "held-by-the-rule", true); err != nil {
		t.Error(err)
	}
	w.warmed(t, "held-by-the-rule", "opened-early")
	p.must("kubectl wait nrr/startup-taint --for=jsonpath='{.status.nodes.held}'=0 --timeout=30m")
	w.released(t, h, "held-by-the-rule")
	if err := h.is("opened-early", true, false, true, false); err != nil {
		t.Error(err)
	}
	p.must("kubectl delete nrr startup-taint")
	cluster.Eventually(t, "the webhook's taint is left to it", func() error { return h.is("held-by-the-webhook", true) })
}

// recorded checks that nodes are claimed by a rule.
func (w *world) recorded(ctx context.Context, nodes ...string) error {
	for _, name := range nodes {
		n, err := w.get(ctx, name)
		if err != nil {
			return err
		}
		claimed := false
		for key, value := range n.Annotations {
			claimed = claimed || strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) && strings.Contains(value, initTaint)
		}
		if !claimed {
			return fmt.Errorf("node %s bears %v", name, n.Annotations)
		}
	}
	return nil
}

// annotated checks when a node was completed; empty: at some time of now.
func (w *world) annotated(t *testing.T, name, want string) {
	t.Helper()
	n, err := w.get(t.Context(), name)
	must(t, err)
	if got := n.Annotations[completedAt]; got == "" || want != "" && got != want {
		t.Errorf("node %s: completed at %q, and should be %q", name, got, want)
	}
}
