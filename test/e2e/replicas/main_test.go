// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/test/cluster"
)

// clusters is the one cluster of all tests. Each test starts its own replicas.
var clusters = cluster.Shared(func(ctx context.Context) (*cluster.Cluster, error) {
	return cluster.Start(ctx, cluster.Options{CRD: true})
})

func TestMain(m *testing.M) { clusters.Main(m) }

// env is the cluster with nodes of a test's own.
type env struct{ *cluster.Pool }

func newPool(t *testing.T, nodes int) *env {
	t.Helper()
	return &env{cluster.NewPool(t, clusters.Get(t), nodes)}
}

// replica starts a replica that takes part in the election. It ends with the test.
func (e *env) replica(o cluster.OperatorOptions) *cluster.Operator {
	e.T.Helper()
	o.Name, o.Elect = e.Name+"-"+o.Name, true
	op, err := e.StartOperator(e.T.Context(), o)
	e.Must(err)
	e.T.Cleanup(func() {
		if op.PID() != 0 {
			_ = op.Stop()
		}
		for _, line := range op.Log() {
			if o.Binary == "" && !json.Valid([]byte(line)) {
				e.T.Errorf("the log of %s has a line that is not JSON: %s", o.Name, line)
			}
		}
	})
	return op
}

// leader is the holder of the lease, or empty.
func (e *env) leader() string {
	e.T.Helper()
	lease, err := e.Clientset.CoordinationV1().Leases(cluster.Namespace).Get(e.T.Context(),
		"operator.nodegate.io", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	e.Must(err)
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// leads waits until a replica leads that is not the former leader, and returns it.
func (e *env) leads(former string) (leader string) {
	e.T.Helper()
	e.Eventually("a replica leads", func() error {
		if leader = e.leader(); leader == "" || leader == former {
			return fmt.Errorf("the lease is held by %q", leader)
		}
		return nil
	})
	return leader
}

// tainted counts the nodes with the taint.
func (e *env) tainted() int {
	e.T.Helper()
	pool := metav1.ListOptions{LabelSelector: cluster.PoolKey + "=" + e.Name}
	nodes, err := e.Clientset.CoreV1().Nodes().List(e.T.Context(), pool)
	e.Must(err)
	n := 0
	for i := range nodes.Items {
		if cluster.HasTaint(&nodes.Items[i], cluster.GPUTaint) {
			n++
		}
	}
	return n
}

// taintedAre is a check: so many nodes have the taint.
func (e *env) taintedAre(want int) func() error {
	return func() error {
		if n := e.tainted(); n != want {
			return fmt.Errorf("%d nodes have the taint, want %d", n, want)
		}
		return nil
	}
}
