// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/ledger"
)

const agentsTaint = "example.com/agents"

// grantDaemonSets gives the operator the permission to read the DaemonSets of a namespace.
func (e *env) grantDaemonSets(namespace string) {
	e.T.Helper()
	granted, err := e.ApplyConfig(e.T.Context(), func(o *unstructured.Unstructured) error {
		o.SetNamespace(namespace)
		return nil
	}, "daemonset-evidence/role.yaml")
	e.Must(err)
	for _, o := range granted {
		e.Discard(o)
	}
}

// newNamespace makes a namespace in which pods can be created, and whose DaemonSets the operator may read. Discard it
// after the nodes are created: pods end while their nodes are there.
func (e *env) newNamespace() *corev1.Namespace {
	e.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Name}}
	e.Must(e.Client.Create(e.T.Context(), namespace))
	e.Eventually("the namespace has its service account", func() error {
		_, err := e.Clientset.CoreV1().ServiceAccounts(e.Name).Get(e.T.Context(), "default", metav1.GetOptions{})
		return err
	})
	e.grantDaemonSets(e.Name)
	return namespace
}

// followGates records from now on which nodes have a taint. The function that it returns waits until everything up to
// now is recorded.
func (e *env) followGates(key string) (l *ledger.Ledger, settle func()) {
	e.T.Helper()
	l = &ledger.Ledger{Taint: corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	nodes := &corev1.NodeList{}
	_, err := e.Watch(e.T.Context(), nodes, func(ev watch.Event) error {
		if node, ok := ev.Object.(*corev1.Node); ok && ev.Type != watch.Deleted {
			return l.Node(node)
		}
		return nil
	})
	e.Must(err)
	for i := range nodes.Items {
		e.Must(l.Node(&nodes.Items[i]))
	}
	return l, func() {
		e.T.Helper()
		now := &corev1.NodeList{}
		e.Must(e.Client.List(e.T.Context(), now))
		e.Eventually("all versions of nodes are recorded", func() error {
			settled, err := l.Settle(now.ResourceVersion, now.Items)
			if err == nil && !settled {
				err = errors.New("the watch has not reported the newest nodes")
			}
			return err
		})
	}
}

// TestARolloutTaintsNoNode updates a DaemonSet on many nodes, which replaces each of its pods.
func TestARolloutTaintsNoNode(t *testing.T) {
	const nodes = 100
	e := newPool(t, nodes)
	e.Discard(e.newNamespace())
	d := build.MakeDaemonSet(e.Name, "agent").Tolerate("").Obj()
	d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("20%"))}}
	e.Create(d)
	e.Create(build.MakeRule(e.Name).Selector(cluster.PoolKey, e.Name).Continuous().MaxUnavailable("100%").DaemonSets(e.Name).
		Taint(agentsTaint, "", corev1.TaintEffectNoSchedule).Obj())
	e.Eventually("all nodes are released", e.Counts(e.Name, v1alpha1.NodeCounts{Matched: nodes, Ready: nodes}))
	e.Eventually("no node has the taint", func() error {
		for _, name := range e.Nodes {
			if err := e.Tainted(name, agentsTaint, false)(); err != nil {
				return err
			}
		}
		return nil
	})

	l, settle := e.followGates(agentsTaint)
	e.Edit(d, func() { d.Spec.Template.Annotations = map[string]string{"example.com/version": "2"} })
	e.Eventually("the rollout is complete", func() error {
		if err := e.Client.Get(context.Background(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		s := &d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedNumberScheduled != nodes || s.NumberReady != nodes {
			return fmt.Errorf("its status is %+v", *s)
		}
		return nil
	})
	e.Eventually("all nodes are ready again", e.Counts(e.Name, v1alpha1.NodeCounts{Matched: nodes, Ready: nodes}))
	settle()
	for _, name := range e.Nodes {
		if gates := l.Gates(name); !slices.Equal(gates, []bool{false}) {
			t.Errorf("node %s was tainted: %v", name, gates)
		}
	}
}
