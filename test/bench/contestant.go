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

// contestant is a process that is measured.
type contestant struct {
	*cluster.Component
	process    cluster.Process
	name, user string
	base       string // the URL below which its metrics are, or what the floor serves
}

func (c *contestant) isOperator() bool { return c.name == operatorName }

// newContestant returns a contestant that runs nowhere yet.
func newContestant(run *measure.Run, name, operator, kubeconfig string, elect bool) (*contestant, error) {
	address, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	probes, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	c := &contestant{name: name, user: userStem + name, base: "http://" + address}
	ready := cluster.Probe(nil, "http://"+probes+"/readyz")
	c.process = cluster.Process{Name: name, Path: operator, Ready: ready, Args: []string{
		"--kubeconfig=" + kubeconfig, fmt.Sprintf("--leader-elect=%t", elect), "--leader-election-namespace=default",
		"--metrics-bind-address=" + address, "--metrics-secure=false", "--health-probe-bind-address=" + probes,
		fmt.Sprintf("--node-concurrent-reconciles=%d", workers),
	}}
	if !c.isOperator() {
		c.process = cluster.Process{Name: name, Path: self, Ready: cluster.Probe(nil, c.base+"/readyz"), Args: []string{
			"floor", "--kubeconfig=" + kubeconfig, "--address=" + address, fmt.Sprintf("--rules=%d", run.Rules),
			"--evidence=" + run.Evidence, fmt.Sprintf("--lean=%t", name == leanName),
		}}
	}
	if limit := run.MemoryTarget() << 20; limit > 0 {
		c.process.Env = []string{fmt.Sprintf("GOMEMLIMIT=%d", min(limit/10*9, limit-64<<20))}
	}
	return c, err
}

// apply makes a contestant act, on nodes that it has only watched until then.
func (b *bench) apply(ctx context.Context, c *contestant) error {
	if !c.isOperator() {
		return cluster.Probe(nil, c.base+"/apply")(ctx)
	}
	all, ctx := errgroup.WithContext(ctx)
	for i := range b.Rules {
		all.Go(func() error { return b.cluster.Client.Create(ctx, newRule(i, b.Evidence)) })
	}
	return all.Wait()
}

// newRule returns a rule that selects all nodes.
func newRule(i int, evidence string) *v1alpha1.NodeReadinessRule {
	rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: ruleName(i)}}
	rule.Spec = v1alpha1.NodeReadinessRuleSpec{
		NodeSelector:    v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{poolLabel: poolValue}},
		Taint:           &v1alpha1.Taint{Key: taintKey(i), Value: taintValue, Effect: "NoSchedule"},
		EnforcementMode: v1alpha1.EnforcementModeContinuous,
	}
	if evidence != measure.ByPods {
		rule.Spec.Conditions = []v1alpha1.ConditionRequirement{{Type: conditionType(i), RequiredStatus: "True"}}
		return rule
	}
	rule.Spec.Requirements = []v1alpha1.Requirement{{Name: evidenceValue, Pods: &v1alpha1.PodsRequirement{
		Namespace: evidenceNamespace,
		Selector:  v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{evidenceLabel: evidenceValue}},
	}}}
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
