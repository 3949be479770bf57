// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	gpuReady = "example.com/GPUReady"
	gpuTaint = "readiness.example.com/gpu"
	poolKey  = "example.com/pool"
)

// clusters is the one cluster of all tests that need one.
var clusters = cluster.Shared(func(ctx context.Context) (*cluster.Cluster, error) {
	o := cluster.Options{ControllerManager: true, Scheduler: true, Kwok: true}
	return cluster.StartWithOperator(ctx, o, cluster.OperatorOptions{Webhooks: true})
})

func TestMain(m *testing.M) {
	if address := os.Getenv(endpointEnv); address != "" {
		if err := serveEndpoint(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	clusters.Main(m)
}

// env is the shared cluster with nodes of a test's own, which are called like the test.
type env struct {
	*cluster.Env
	name  string
	nodes []string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{Env: cluster.NewEnv(t, clusters.Get(t)), name: strings.ToLower(t.Name())}
}

// newPool is an env with nodes that have the pool's label.
func newPool(t *testing.T, nodes int) *env {
	t.Helper()
	e := newEnv(t)
	e.join(nodes, map[string]string{poolKey: e.name})
	return e
}

// join adds nodes.
func (e *env) join(n int, labels map[string]string) {
	e.T.Helper()
	for range n {
		name := fmt.Sprintf("%s-%d", e.name, len(e.nodes))
		e.Create(cluster.NewNode(name, cluster.NodeOptions{Labels: labels}))
		e.nodes = append(e.nodes, name)
	}
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

// rule is a rule for the nodes of the pool.
func (e *env) rule() *build.RuleWrapper {
	return build.MakeRule(e.name).Selector(poolKey, e.name).Condition(gpuReady).
		Taint(gpuTaint, "pending", corev1.TaintEffectNoSchedule)
}

func (e *env) create(r *build.RuleWrapper) *v1alpha1.NodeReadinessRule {
	e.T.Helper()
	rule := r.Obj()
	e.Create(rule)
	return rule
}

// held is a check: all nodes are held, or none of them is, and none has a record of a claim.
func (e *env) held(want bool) func() error {
	return func() error {
		for _, name := range e.nodes {
			if err := e.Tainted(name, gpuTaint, want)(); err != nil {
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

// report reports the condition of all nodes.
func (e *env) report(ready bool) {
	e.T.Helper()
	for _, name := range e.nodes {
		e.Report(name, gpuReady, ready)
	}
}

// taints waits until node i has exactly these of the taints that rules manage, by key.
func (e *env) taints(i int, want ...string) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("node %d has taints %q", i, want), func() error {
		got := []string{}
		for _, t := range e.Node(e.nodes[i]).Spec.Taints {
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
