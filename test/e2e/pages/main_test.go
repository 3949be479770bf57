// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/ledger"
)

// clusters is the one cluster of all tests.
var clusters = cluster.Shared(func(ctx context.Context) (*cluster.Cluster, error) {
	o := cluster.Options{ControllerManager: true, Scheduler: true, Kwok: true}
	return cluster.StartWithOperator(ctx, o, cluster.OperatorOptions{Webhooks: true})
})

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	clusters.Main(m)
}

// env is the cluster with a ledger of one taint.
type env struct {
	*cluster.Env
	ledger   *ledger.Ledger
	follower *ledger.Follower
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{Env: cluster.NewEnv(t, clusters.Get(t))}
}

// follow records every version of every node from now on.
func (e *env) follow(key string) {
	e.T.Helper()
	e.ledger = &ledger.Ledger{Taint: corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	var err error
	e.follower, err = ledger.Follow(e.T.Context(), e.Cluster, e.ledger, client.MatchingLabels{"app": "none"})
	e.Must(err)
}

// settle waits until all versions up to now are recorded.
func (e *env) settle() {
	e.T.Helper()
	e.Must(e.follower.Settle(e.T.Context()))
}

// gates is a check: whether the taint was on a node, at first and after each change.
func (e *env) gates(node string, want ...bool) func() error {
	return func() error {
		if got := e.ledger.Gates(node); !slices.Equal(got, want) {
			return fmt.Errorf("node %s was tainted %v, want %v", node, got, want)
		}
		return nil
	}
}

// warmUp makes the init pod come to nodes.
func (e *env) warmUp(nodes ...string) {
	e.T.Helper()
	for _, n := range nodes {
		e.PatchNode(n, fmt.Sprintf(`{"metadata":{"labels":{%q:"yes"}}}`, warm))
	}
}
