// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodegate/nodegate/test/cluster"
)

// TestALeaderThatWasFrozen is stopped in the middle of its writes, for longer than its lease. The other replica
// finishes what it began, and then everything turns out otherwise. When the first one goes on, it still has writes to
// make by what it knew before, and hears of nodes before it hears of rules: none of its writes may be carried out.
func TestALeaderThatWasFrozen(t *testing.T) {
	const nodes = 150
	e := newPool(t, nodes)
	// It needs half a minute for all nodes, so that it can be frozen in the middle, with writes that wait for their turn,
	// on a busy machine, too.
	first := e.replica(cluster.OperatorOptions{Name: "first", Args: []string{"--kube-api-qps=5", "--kube-api-burst=1"}})
	frozen := e.leads("")
	second := e.replica(cluster.OperatorOptions{Name: "second"})
	rule := e.Rule().Obj()
	e.Create(rule)
	e.Eventually("the leader is at work", func() error {
		if e.tainted() == 0 {
			return errors.New("it has not begun")
		}
		return nil
	})
	e.Must(first.Pause())
	t.Cleanup(func() { _ = first.Resume() })
	done := e.tainted()
	t.Logf("frozen after %d of %d nodes", done, nodes)
	if done == nodes {
		t.Fatal("the leader had written all nodes before it was frozen: this does not test that its writes are refused")
	}

	e.leads(frozen)
	e.Eventually("the next leader taints the others", e.taintedAre(nodes))
	e.ReportAll(true)
	e.Eventually("and releases all", e.taintedAre(0))
	// What the rule required is missing now. The first replica may hear of that before it hears of the edited rule.
	const other = "example.com/Other"
	for _, node := range e.Nodes {
		e.Report(node, other, true)
	}
	e.Edit(rule, func() { rule.Spec.Conditions[0].Type = other })
	e.Looked()
	e.ReportAll(false)
	e.Must(e.taintedAre(0)())

	list, err := e.Clientset.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	e.Must(err)
	changes, err := e.Clientset.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{
		LabelSelector: cluster.PoolKey + "=" + e.Name, ResourceVersion: list.ResourceVersion})
	e.Must(err)
	defer changes.Stop()
	e.Must(first.Resume())
	select {
	case <-first.Exited():
	case <-time.After(cluster.Limit):
		t.Error("the replica that lost its lease goes on")
	}
	e.noneTainted(changes)
	refused := func(line string) bool { return strings.Contains(line, "not renewed its lease") }
	if !slices.ContainsFunc(first.Log(), refused) {
		t.Error("its writes are not refused, although it has no lease")
	}
	e.Must(e.taintedAre(0)())
	e.Must(e.Client.Delete(t.Context(), rule)) // while there is an operator that cleans up
	e.Eventually("the rule is gone", e.Gone(rule))
	e.Must(second.Stop())
}

// noneTainted reads the changes up to one that it makes itself: none of them is a taint.
func (e *env) noneTainted(changes watch.Interface) {
	e.T.Helper()
	const last = "example.com/last"
	e.PatchNode(e.Nodes[0], `{"metadata":{"labels":{"`+last+`":""}}}`)
	limit := time.After(cluster.Limit)
	for {
		select {
		case event, open := <-changes.ResultChan():
			n, ok := event.Object.(*corev1.Node)
			if !open || !ok {
				e.T.Fatalf("the watch ended: %+v", event.Object)
			}
			if cluster.HasTaint(n, cluster.GPUTaint) {
				e.T.Errorf("node %s was tainted again", n.Name)
			}
			if _, ok := n.Labels[last]; ok {
				return
			}
		case <-limit:
			e.T.Fatal("the watch does not show the last change")
		}
	}
}
