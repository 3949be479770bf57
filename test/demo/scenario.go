// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/ledger"
	"github.com/nodegate/nodegate/test/demo/view"
)

const (
	ruleName  = "network-readiness-rule" // of the example
	condition = "projectcalico.org/CalicoReady"
	app       = "web"

	nodes = 10
	// Each pod asks for 10 of a node's 32 CPUs: three fit on a node, and all only when the last node is open.
	pods, podsPerNode = 30, 3
	// late is how many nodes join without the taint.
	late   = 3
	podCPU = "10"

	// pace is the time between two nodes' CNIs, and pause for how long something is looked at.
	pace  = 1200 * time.Millisecond
	pause = 2 * time.Second
	// patience is for how long anything is waited for. The machine may be busy.
	patience = time.Minute
)

var (
	taint = corev1.Taint{Key: "readiness.k8s.io/NetworkReady", Value: "pending", Effect: corev1.TaintEffectNoSchedule}
	// worker is what the example's rule selects.
	worker = map[string]string{"node-role.kubernetes.io/worker": ""}
)

// demo is one performance.
type demo struct {
	*cluster.Cluster
	screen   *view.Screen
	ledger   *ledger.Ledger
	follower *ledger.Follower
}

func newDemo(c *cluster.Cluster, screen *view.Screen) *demo {
	return &demo{Cluster: c, screen: screen, ledger: &ledger.Ledger{Condition: condition, Taint: taint}}
}

// play plays all acts. What it returns says what did not happen.
func (d *demo) play(ctx context.Context, admission bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	if d.follower, err = ledger.Follow(ctx, d.Cluster, d.ledger, client.MatchingLabels{"app": app}); err != nil {
		return err
	}
	acts := []func(context.Context) error{d.register, d.comeUp, d.breakDown}
	if admission {
		acts = append(acts, d.join)
	}
	for _, act := range acts {
		if err := act(ctx); err != nil {
			return err
		}
	}
	if err := d.follower.Settle(ctx); err != nil {
		return err
	}
	return d.verdict(d.ledger.Snapshot())
}

// register: the rule, ten nodes that it holds, and pods that wait for them.
func (d *demo) register(ctx context.Context) error {
	d.screen.Step("Applying examples/cni-readiness/network-readiness-rule.yaml")
	objects, err := cluster.ReadObjects(cluster.Example("cni-readiness", "network-readiness-rule.yaml"))
	if err != nil {
		return err
	}
	if err := d.Apply(ctx, objects...); err != nil {
		return err
	}
	d.screen.Step("%d nodes register with the taint %s; a Deployment wants %d pods", nodes, taint.ToString(), pods)
	o := cluster.NodeOptions{Labels: worker, Taints: []corev1.Taint{taint}}
	if err := d.AddNodes(ctx, "node", nodes, o); err != nil {
		return err
	}
	if err := d.Deploy(ctx, app, pods, podCPU, nil); err != nil {
		return err
	}
	err = d.await(ctx, "all nodes are held, and nothing else keeps pods off them", func(s *ledger.Snapshot) bool {
		others := 0
		for i := range s.Rows {
			others += s.Rows[i].OtherTaints
		}
		return len(s.Rows) == nodes && s.Held() == nodes && others == 0 && s.Pods == pods
	})
	if err != nil {
		return err
	}
	if err := d.awaitCounts(ctx, v1alpha1.NodeCounts{Matched: nodes, Held: nodes}); err != nil {
		return err
	}
	for i := range nodes {
		if err := d.Report(ctx, fmt.Sprintf("node-%d", i), condition, false); err != nil {
			return err
		}
	}
	if err := d.watch(ctx, pause); err != nil {
		return err
	}
	if s := d.ledger.Snapshot(); s.Bound > 0 || s.Held() < nodes {
		return fmt.Errorf("no CNI is up, and %d pods are placed, %d of %d nodes held", s.Bound, s.Held(), nodes)
	}
	return nil
}

// comeUp: the CNI of one node after another; each opens, and the scheduler fills it.
func (d *demo) comeUp(ctx context.Context) error {
	d.screen.Step("The CNI comes up on one node after another; the scheduler places pods on those, and only on those")
	for up, i := range rand.Perm(nodes) {
		node := fmt.Sprintf("node-%d", i)
		began := time.Now()
		if err := d.Report(ctx, node, condition, true); err != nil {
			return err
		}
		want := (up + 1) * podsPerNode
		err := d.await(ctx, fmt.Sprintf("%s is open and has %d pods", node, podsPerNode), func(s *ledger.Snapshot) bool {
			r := s.Row(node)
			return r != nil && !r.Held() && r.Pods == podsPerNode && s.Bound == want
		})
		if err != nil {
			return err
		}
		if err := d.watch(ctx, pace-time.Since(began)); err != nil {
			return err
		}
	}
	if err := d.await(ctx, "all pods run", func(s *ledger.Snapshot) bool { return s.Running == pods }); err != nil {
		return err
	}
	return d.awaitCounts(ctx, v1alpha1.NodeCounts{Matched: nodes, Ready: nodes})
}

// breakDown: with the rule made continuous, a node whose CNI fails is held again, until it is back.
func (d *demo) breakDown(ctx context.Context) error {
	node := fmt.Sprintf("node-%d", rand.IntN(nodes))
	d.screen.Step("The rule becomes continuous, and the CNI of %s fails: "+
		"the taint is back, its pods run on", node)
	rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: ruleName}}
	edit := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"enforcementMode":"continuous"}}`))
	if err := d.Client.Patch(ctx, rule, edit); err != nil {
		return fmt.Errorf("editing the rule: %w", err)
	}
	if err := d.Report(ctx, node, condition, false); err != nil {
		return err
	}
	err := d.await(ctx, node+" is held again, with its pods", func(s *ledger.Snapshot) bool {
		return s.Row(node).Held() && s.Held() == 1 && s.Row(node).Pods == podsPerNode
	})
	if err != nil {
		return err
	}
	if err := d.watch(ctx, pause); err != nil {
		return err
	}

	d.screen.Step("Its pods are deleted. The new ones wait: all other nodes are full")
	where := client.MatchingFields{"spec.nodeName": node}
	if err := d.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default"), where); err != nil {
		return fmt.Errorf("deleting the pods of node %q: %w", node, err)
	}
	waiting := func(s *ledger.Snapshot) bool {
		return s.Row(node).Held() && s.Row(node).Pods == 0 && s.Pods == pods && s.Bound == pods-podsPerNode
	}
	if err := d.await(ctx, "the new pods wait", waiting); err != nil {
		return err
	}
	if err := d.watch(ctx, pause); err != nil {
		return err
	}
	if s := d.ledger.Snapshot(); !waiting(&s) {
		return fmt.Errorf("the CNI of %s is down and pods did not wait for it: %s", node, view.Summary(&s))
	}

	d.screen.Step("The CNI of %s is back", node)
	if err := d.Report(ctx, node, condition, true); err != nil {
		return err
	}
	return d.await(ctx, "all pods run", func(s *ledger.Snapshot) bool { return s.Running == pods && s.Held() == 0 })
}

// join: nodes that join without the taint have it from the request that creates them, and no pod slips in.
func (d *demo) join(ctx context.Context) error {
	const all = pods + late*podsPerNode
	d.screen.Step("The Deployment wants %d pods; %d more nodes join, and their kubelets do not set the taint: "+
		"admission adds it", all, late)
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: "default"}}
	edit := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, all))
	if err := d.Client.Patch(ctx, web, edit); err != nil {
		return fmt.Errorf("scaling the Deployment: %w", err)
	}
	if err := d.await(ctx, "the new pods wait", func(s *ledger.Snapshot) bool { return s.Pods == all }); err != nil {
		return err
	}
	for i := range late {
		node := cluster.NewNode(fmt.Sprintf("late-%d", i), cluster.NodeOptions{Labels: worker})
		created, err := d.Clientset.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating node %q: %w", node.Name, err)
		}
		if !slices.ContainsFunc(created.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
			return fmt.Errorf("admission did not add the taint to node %q", node.Name)
		}
	}
	err := d.await(ctx, "the new nodes are held", func(s *ledger.Snapshot) bool {
		return len(s.Rows) == nodes+late && s.Held() == late
	})
	if err != nil {
		return err
	}
	if err := d.watch(ctx, pause); err != nil {
		return err
	}
	d.screen.Step("Their CNIs come up")
	for i := range late {
		if err := d.Report(ctx, fmt.Sprintf("late-%d", i), condition, true); err != nil {
			return err
		}
	}
	return d.await(ctx, "all pods run", func(s *ledger.Snapshot) bool { return s.Running == all && s.Held() == 0 })
}

// await shows what happens until something has, and fails if it does not or if something else happens that must not.
func (d *demo) await(ctx context.Context, what string, happened func(*ledger.Snapshot) bool) error {
	deadline := time.Now().Add(patience)
	for {
		s, err := d.look(ctx)
		if err != nil {
			return err
		}
		if happened(s) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %s: %s", what, patience, view.Summary(s))
		}
	}
}

// watch shows for a while what happens.
func (d *demo) watch(ctx context.Context, duration time.Duration) error {
	for deadline := time.Now().Add(duration); time.Now().Before(deadline); {
		if _, err := d.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// look waits a moment and shows the ledger.
func (d *demo) look(ctx context.Context) (*ledger.Snapshot, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.Operator.Exited():
		return nil, errors.New("the operator has ended")
	case <-time.After(50 * time.Millisecond):
	}
	if err := d.follower.Err(); err != nil {
		return nil, err
	}
	s := d.ledger.Snapshot()
	d.screen.Show(&s)
	return &s, d.verdict(s)
}

// verdict is an error if a pod was ever bound to a node that was not ready for it.
func (d *demo) verdict(s ledger.Snapshot) error {
	if len(s.Violations) == 0 {
		return nil
	}
	return errors.New("the gate did not hold:\n  " + strings.Join(s.Violations, "\n  "))
}

// awaitCounts waits until the rule's status counts the nodes so.
func (d *demo) awaitCounts(ctx context.Context, want v1alpha1.NodeCounts) error {
	return d.await(ctx, fmt.Sprintf("the rule's status counts %+v", want), func(*ledger.Snapshot) bool {
		rule := &v1alpha1.NodeReadinessRule{}
		err := d.Client.Get(ctx, client.ObjectKey{Name: ruleName}, rule)
		return err == nil && rule.Status.Nodes != nil && *rule.Status.Nodes == want
	})
}
