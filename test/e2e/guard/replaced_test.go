// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

// TestAReplicaOnADeadNodeIsReplaced runs the operator's Deployment on simulated nodes, with its own tolerations, for a
// shorter time, and its own affinity: each replica has a node of its own, and the one on a dead node gets a successor.
func TestAReplicaOnADeadNodeIsReplaced(t *testing.T) {
	e := parallel(t)
	objects, err := cluster.ReadConfig("manager/deployment.yaml")
	e.Must(err)
	d := &appsv1.Deployment{}
	e.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, d))
	d.Name, d.Namespace = e.name, metav1.NamespaceDefault
	d.Spec.Template.Spec.ServiceAccountName = "" // that of config/rbac is not there
	d.Spec.Template.Spec.NodeSelector = map[string]string{label: e.name}
	for i, toleration := range d.Spec.Template.Spec.Tolerations {
		if toleration.TolerationSeconds != nil { // the test does not wait for as long
			d.Spec.Template.Spec.Tolerations[i].TolerationSeconds = new(int64(1))
		}
	}
	dead, second := e.node("a", true), e.node("b", true)
	e.Create(d)
	runOn := func(want ...string) func() error {
		return func() error {
			pods := &corev1.PodList{}
			if err := e.Client.List(t.Context(), pods, client.InNamespace(d.Namespace),
				client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
				return err
			}
			var on []string
			for i := range pods.Items {
				if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
					on = append(on, p.Spec.NodeName)
				}
			}
			if slices.Sort(on); !slices.Equal(on, want) {
				return fmt.Errorf("replicas run on %q, not on %q", on, want)
			}
			return nil
		}
	}
	e.Eventually("each replica runs on a node of its own", runOn(dead, second))
	third := e.node("c", true)
	e.SetKubelet(dead, false)
	e.Eventually("the replica on the dead node is replaced", runOn(second, third))
}
