// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	operatorName = "operator"
	equalName    = "equal-floor"
	leanName     = "lean-floor"

	// userStem and the name of a contestant are its user.
	userStem = "bench-"
)

var contestants = []string{equalName, leanName, operatorName}

// contestant is one that is measured.
type contestant struct {
	name, user string
	process    cluster.Process
	base       string // the URL below which its metrics are, or what the floor serves
}

func (c *contestant) isOperator() bool { return c.name == operatorName }

func (b *bench) contestant(name string) (*contestant, error) {
	c := &contestant{name: name, user: userStem + name}
	kubeconfig, err := b.cluster.KubeconfigFor(c.user, "system:masters")
	if err != nil {
		return nil, err
	}
	c.process, c.base, err = command(b.Run, name, b.operator, kubeconfig, false)
	return c, err
}

// apply makes a contestant act, on nodes that it has only watched until then.
func (b *bench) apply(ctx context.Context, c *contestant) error {
	if c.isOperator() {
		return b.createRules(ctx)
	}
	return cluster.Probe(nil, c.base+"/apply")(ctx)
}

// command returns how a contestant is started, and the URL below which its metrics are, or what the floor serves.
func command(run *measure.Run, name, operator, kubeconfig string, elect bool) (p cluster.Process, base string,
	err error,
) {
	address, err := cluster.FreeAddress()
	if err != nil {
		return p, "", err
	}
	base = "http://" + address
	var env []string
	if limit := run.MemoryTarget() << 20; limit > 0 {
		env = append(env, fmt.Sprintf("GOMEMLIMIT=%d", min(limit/10*9, limit-64<<20)))
	}
	if name != operatorName {
		self, err := os.Executable()
		ready := cluster.Probe(nil, base+"/readyz")
		return cluster.Process{Name: name, Path: self, Env: env, Ready: ready, Args: []string{
			"floor", "--kubeconfig=" + kubeconfig, "--address=" + address, fmt.Sprintf("--rules=%d", run.Rules),
			"--evidence=" + run.Evidence, fmt.Sprintf("--lean=%t", name == leanName),
		}}, base, err
	}
	probes, err := cluster.FreeAddress()
	ready := cluster.Probe(nil, "http://"+probes+"/readyz")
	p = cluster.Process{Name: name, Path: operator, Env: env, Ready: ready, Args: []string{
		"--kubeconfig=" + kubeconfig, fmt.Sprintf("--leader-elect=%t", elect), "--leader-election-namespace=default",
		"--metrics-bind-address=" + address, "--metrics-secure=false", "--health-probe-bind-address=" + probes,
		fmt.Sprintf("--node-concurrent-reconciles=%d", workers),
	}}
	return p, base, err
}

func (b *bench) createRules(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for i := range b.Rules {
		rule := newRule(i)
		b.require(&rule.Spec, i)
		all.Go(func() error { return b.cluster.Client.Create(ctx, rule) })
	}
	return all.Wait()
}

// newRule returns a rule that selects all nodes, without evidence.
func newRule(i int) *v1alpha1.NodeReadinessRule {
	rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: ruleName(i)}}
	rule.Spec = v1alpha1.NodeReadinessRuleSpec{
		NodeSelector:    v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{poolLabel: poolValue}},
		Taint:           &v1alpha1.Taint{Key: taintKey(i), Value: taintValue, Effect: "NoSchedule"},
		EnforcementMode: v1alpha1.EnforcementModeContinuous,
	}
	return rule
}

// deleteRules deletes the rules, and waits until the operator has removed their finalizers.
func (b *bench) deleteRules(ctx context.Context) error {
	if err := b.cluster.Client.DeleteAllOf(ctx, &v1alpha1.NodeReadinessRule{}); err != nil {
		return err
	}
	return cluster.Poll(ctx, b.phaseLimit(), func() error {
		rules := &v1alpha1.NodeReadinessRuleList{}
		err := b.cluster.Client.List(ctx, rules)
		if err == nil && len(rules.Items) > 0 {
			err = fmt.Errorf("%d deleted rules have finalizers", len(rules.Items))
		}
		return err
	})
}

// ruleStatuses returns what the statuses of the rules count.
func (b *bench) ruleStatuses(ctx context.Context) (map[string]v1alpha1.NodeCounts, error) {
	rules := &v1alpha1.NodeReadinessRuleList{}
	err := b.cluster.Client.List(ctx, rules)
	out := map[string]v1alpha1.NodeCounts{}
	for i := range rules.Items {
		out[rules.Items[i].Name] = ptr.Deref(rules.Items[i].Status.Nodes, v1alpha1.NodeCounts{})
	}
	return out, err
}
