// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// clusters is the one cluster of all tests that need one.
var clusters = cluster.Shared(func(ctx context.Context) (*cluster.Cluster, error) {
	o := cluster.Options{ControllerManager: true, Scheduler: true, Kwok: true}
	return cluster.StartWithOperator(ctx, o, cluster.OperatorOptions{Webhooks: true})
})

func TestMain(m *testing.M) {
	logf.SetLogger(klog.Background())
	clusters.Main(m)
}

// env is the shared cluster with nodes of a test's own.
type env struct{ *cluster.Pool }

func newPool(t *testing.T, nodes int) *env {
	t.Helper()
	return &env{cluster.NewPool(t, clusters.Get(t), nodes)}
}

// stopOperator stops the operator until it is started, or until the test ends.
func (e *env) stopOperator() {
	e.T.Helper()
	e.Must(e.Operator.Stop())
	e.T.Cleanup(func() {
		if e.Operator.PID() == 0 {
			e.Must(e.Operator.Start(context.Background()))
		}
	})
}

// held is a check: all nodes are held, or none of them is, and none has a record of a claim.
func (e *env) held(want bool) func() error {
	return func() error {
		for _, name := range e.Nodes {
			if err := e.Tainted(name, cluster.GPUTaint, want)(); err != nil {
				return err
			}
			for k, v := range e.Node(name).Annotations {
				if !want && strings.HasPrefix(k, v1alpha1.RecordAnnotationPrefix) && strings.Contains(v, `"taint"`) {
					return fmt.Errorf("node %s has the record %s", name, v)
				}
			}
		}
		return nil
	}
}

// taints waits until node i has exactly these of the taints that rules manage, by key.
func (e *env) taints(i int, want ...string) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("node %d has taints %q", i, want), func() error {
		got := []string{}
		for _, t := range e.Node(e.Nodes[i]).Spec.Taints {
			if t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable {
				got = append(got, t.Key)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}
