// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/test/build"
)

// What the rule of a Pool is about.
const (
	GPUReady = "example.com/GPUReady"
	GPUTaint = "readiness.example.com/gpu"
	PoolKey  = "example.com/pool"
)

// Pool is a cluster with nodes of one test's own. The pool and its nodes are named like the test.
type Pool struct {
	*Env
	Name  string
	Nodes []string
	looks int
}

// NewPool returns a pool of some nodes with its label.
func NewPool(t testing.TB, c *Cluster, nodes int) *Pool {
	t.Helper()
	p := &Pool{Env: NewEnv(t, c), Name: strings.ToLower(t.Name())}
	p.Join(nodes, map[string]string{PoolKey: p.Name})
	return p
}

// Join adds nodes.
func (p *Pool) Join(n int, labels map[string]string) {
	p.T.Helper()
	for range n {
		name := fmt.Sprintf("%s-%03d", p.Name, len(p.Nodes))
		p.AddNode(name, labels)
		p.Nodes = append(p.Nodes, name)
	}
}

// Rule returns a rule for the nodes of the pool.
func (p *Pool) Rule() *build.RuleWrapper {
	return build.MakeRule(p.Name).Selector(PoolKey, p.Name).Condition(GPUReady).
		Taint(GPUTaint, "pending", corev1.TaintEffectNoSchedule)
}

// Looked waits until the operator has held and released one more node: by then it has looked at all that changed
// before.
func (p *Pool) Looked() {
	p.T.Helper()
	p.looks++
	name := fmt.Sprintf("%s-look-%d", p.Name, p.looks)
	taint := name + ".example.com/look"
	rule := build.MakeRule(name).Selector(PoolKey, name).Condition(GPUReady).
		Taint(taint, "", corev1.TaintEffectNoSchedule).Obj()
	p.AddNode(name, map[string]string{PoolKey: name})
	p.Must(p.Client.Create(p.T.Context(), rule))
	p.Eventually("the operator holds one more node", p.Tainted(name, taint, true))
	p.Report(name, GPUReady, true)
	p.Eventually("the operator releases it", p.Tainted(name, taint, false))
	p.Remove(rule)
}

// ReportAll sets the condition of all nodes.
func (p *Pool) ReportAll(ready bool) {
	p.T.Helper()
	for _, name := range p.Nodes {
		p.Report(name, GPUReady, ready)
	}
}
