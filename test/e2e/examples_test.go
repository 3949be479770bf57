// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// says waits until the status of a rule says what is missing on node i.
func (e *env) says(rule string, i int, message string) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("rule %s says %q", rule, message), func() error {
		r := &v1alpha1.NodeReadinessRule{}
		if err := e.Client.Get(e.T.Context(), client.ObjectKey{Name: rule}, r); err != nil {
			return err
		}
		for _, n := range r.Status.NodeEvaluations {
			for _, q := range n.RequirementResults {
				if n.NodeName == e.Nodes[i] && q.Message == message {
					return nil
				}
			}
		}
		return fmt.Errorf("it says %+v", r.Status.NodeEvaluations)
	})
}

func TestExampleCSIDriver(t *testing.T) {
	e := newPool(t, 0)
	e.Join(2, map[string]string{"example.com/storage": "ebs"})
	const taint = "readiness.k8s.io/StorageReady"
	e.Eventually("the nodes are older than the rule", func() error { // times of creation are in whole seconds
		if age := time.Since(e.Node(e.Nodes[1]).CreationTimestamp.Time); age < time.Second {
			return fmt.Errorf("they are %s old", age)
		}
		return nil
	})
	e.ApplyFile(cluster.Example("csi-driver", "rule.yaml"))
	e.says("ebs-csi", 0, "CSI driver ebs.csi.aws.com is not registered")
	// Both were in service before the rule, of which maxUnavailable lets one be held.
	e.Eventually("one of the nodes is held", func() error {
		a, b := cluster.HasTaint(e.Node(e.Nodes[0]), taint), cluster.HasTaint(e.Node(e.Nodes[1]), taint)
		if a == b {
			return fmt.Errorf("held: %t, %t", a, b)
		}
		return nil
	})
	for _, node := range e.Nodes { // as kubelet registers the driver
		n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: "ebs.csi.aws.com", NodeID: node,
				Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(25))}}},
		}}
		e.Eventually("the CSINode is written", func() error {
			return client.IgnoreAlreadyExists(e.Client.Create(context.Background(), n.DeepCopy()))
		})
		e.Discard(n)
	}
	e.taints(0)
	e.taints(1)
}
