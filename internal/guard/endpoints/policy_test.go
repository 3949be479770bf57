// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestPolicy writes what the node controller writes, on a real API server.
func TestPolicy(t *testing.T) {
	server := cluster.ForTest(t, cluster.Options{})
	server.Needs(t, cluster.MutatingAdmissionPolicies)
	for _, file := range []string{"nodegate.io_keptendpoints.yaml", "policy.yaml"} {
		objects, err := cluster.ReadObjects(cluster.Root() + "/config/endpoint-policy/" + file)
		cluster.Must(t, err)
		cluster.Must(t, server.Apply(t.Context(), objects...))
	}
	now := time.Now().Truncate(time.Second)
	stamp := func(seconds int) string {
		return now.Add(time.Duration(seconds) * time.Second).UTC().Format(time.RFC3339)
	}
	object := &endpointsv1alpha1.KeptEndpoints{ObjectMeta: metav1.ObjectMeta{Name: endpointsv1alpha1.Name}}
	object.Rules = []endpointsv1alpha1.EndpointRule{
		{Name: "none", UID: "u-0", ArmedUntil: metav1.NewTime(now.Add(time.Hour))},
		{Name: "past", UID: "u-1", ArmedUntil: metav1.NewTime(now.Add(-time.Second)), Nodes: map[string]string{"past": ""}},
		{Name: "acts", UID: "u-2", ArmedUntil: metav1.NewTime(now.Add(time.Minute)), Nodes: map[string]string{"armed": "",
			"ended": endpointsv1alpha1.Ended, "marked": endpointsv1alpha1.Marked,
			"kept": stamp(30), "kept-before": stamp(-30), "both": endpointsv1alpha1.Ended}},
		{Name: "too", UID: "u-3", ArmedUntil: metav1.NewTime(now.Add(time.Minute)), Nodes: map[string]string{"both": ""}},
	}
	cluster.Eventually(t, "the object is written", func() error { return server.Client.Create(t.Context(), object) })
	controller, err := server.As(guard.NodeController, "system:masters")
	cluster.Must(t, err)
	notReady := func(at int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			c := condition.OfPod(p, corev1.PodReady)
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(now.Add(time.Duration(at)*time.Second))
		}
	}
	pods := 0
	write := func(t *testing.T, by client.Client, node string, changes ...func(*corev1.Pod)) (before, after *corev1.Pod) {
		t.Helper()
		pods++
		pod := build.MakePod("default", fmt.Sprintf("p-%d", pods)).Node(node).Obj()
		cluster.Must(t, server.Client.Create(t.Context(), pod))
		pod.Status.Phase = corev1.PodRunning
		for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady, corev1.ContainersReady} {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))})
		}
		cluster.Must(t, server.Client.Status().Update(t.Context(), pod))
		before = pod.DeepCopy()
		for _, change := range changes {
			change(pod)
		}
		cluster.Must(t, by.Status().Update(t.Context(), pod))
		return before, pod
	}
	cluster.Eventually(t, "the policy is in force", func() error {
		if _, after := write(t, controller, "armed", notReady(0)); !ready(after) {
			return fmt.Errorf("conditions %v", after.Status.Conditions)
		}
		return nil
	})
	manager, err := server.As(guard.ControllerManager, "system:masters")
	cluster.Must(t, err)
	target := func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget,
			Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"})
	}
	for name, c := range map[string]struct {
		by      client.Client // by default the node controller
		node    string
		changes []func(*corev1.Pod)
		kept    bool
	}{
		"an armed node":                        {node: "armed", kept: true},
		"by the controller manager":            {by: manager, node: "armed", kept: true},
		"by another user":                      {by: server.Client, node: "armed"},
		"a node that no rule has":              {node: "other"},
		"a node that is kept no longer":        {node: "ended"},
		"kept no longer by one of two rules":   {node: "both", kept: true},
		"a node whose pods are marked":         {node: "marked"},
		"within the hold":                      {node: "kept", kept: true},
		"after the hold":                       {node: "kept-before"},
		"without an operator":                  {node: "past"},
		"by a clock that is ahead":             {node: "armed", changes: []func(*corev1.Pod){notReady(60)}},
		"a second earlier":                     {node: "armed", changes: []func(*corev1.Pod){notReady(59)}, kept: true},
		"with the announcement of an eviction": {node: "armed", changes: []func(*corev1.Pod){notReady(0), target}},
		"with the end of the pod": {node: "armed", changes: []func(*corev1.Pod){notReady(0),
			func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }}},
		"with another condition": {node: "armed", changes: []func(*corev1.Pod){notReady(0),
			func(p *corev1.Pod) { condition.OfPod(p, corev1.ContainersReady).Status = corev1.ConditionFalse }}},
	} {
		t.Run(name, func(t *testing.T) {
			by, changes := c.by, c.changes
			if by == nil {
				by = controller
			}
			if changes == nil {
				changes = []func(*corev1.Pod){notReady(0)}
			}
			before, after := write(t, by, c.node, changes...)
			if ready(after) != c.kept {
				t.Errorf("ready: %t, want %t", ready(after), c.kept)
			}
			if c.kept && after.ResourceVersion != before.ResourceVersion {
				t.Errorf("the pod was written: %v", after.Status.Conditions)
			}
		})
	}
	if _, after := write(t, controller, "armed", target); condition.OfPod(after, corev1.DisruptionTarget) == nil {
		t.Error("the announcement of an eviction is lost")
	}
}

func ready(pod *corev1.Pod) bool {
	return condition.OfPod(pod, corev1.PodReady).Status == corev1.ConditionTrue
}
