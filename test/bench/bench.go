// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	poolLabel    = "bench.example.com/pool"
	poolValue    = "bench"
	taintKeyStem = "readiness.k8s.io/bench-"
	taintValue   = "pending"
	nodePrefix   = "node"
)

// nodeOptions are those of the nodes, which no kubelet renews.
var nodeOptions = cluster.NodeOptions{Unmanaged: true, Labels: map[string]string{poolLabel: poolValue}}

func conditionType(i int) string { return fmt.Sprintf("bench.example.com/Ready-%d", i) }
func taintKey(i int) string      { return fmt.Sprintf("%s%d", taintKeyStem, i) }
func nodeName(i int) string      { return fmt.Sprintf("%s-%d", nodePrefix, i) }
func ruleName(i int) string      { return fmt.Sprintf("bench-%d", i) }

// bench is the cluster and its clients.
type bench struct {
	*measure.Run
	cluster  *cluster.Cluster
	phases   []string
	operator string // the binary
	writer   *writer
	watch    *observer
	audit    *auditLog
}

// setUp starts the cluster, which must be stopped even if there is an error, and creates its nodes.
func (b *bench) setUp(ctx context.Context) error {
	if err := b.startCluster(ctx); err != nil {
		return err
	}
	log.Printf("building the operator")
	operator, err := b.cluster.Binary(ctx, "manager")
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfig(b.cluster.Config())
	if err != nil {
		return err
	}
	b.operator, b.audit, b.writer = operator, &auditLog{path: b.cluster.AuditLog()}, newWriter(client, b.Rules)
	for i := range b.Nodes {
		b.writer.names = append(b.writer.names, nodeName(i))
	}
	go b.watch.run(ctx, b.cluster)
	return b.createNodes(ctx)
}

func (b *bench) startCluster(ctx context.Context) (err error) {
	// Each pass writes all nodes a dozen times: at 5000 nodes that is more than etcd's 2 GiB.
	if err := os.Setenv("ETCD_QUOTA_BACKEND_BYTES", fmt.Sprint(8<<30)); err != nil {
		return err
	}
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		AuditPolicy: auditPolicy(),
		Log:         log.Writer(),
		CRD:         true,
		// The bench compacts between the passes: in the middle of one it would disturb it.
		APIServerArgs: []string{"--etcd-compaction-interval=0"},
	})
	if err != nil {
		return err
	}
	if _, err := b.cluster.ApplyConfig(ctx, forContestants, cluster.RecordGuard, cluster.NodeAdmissionPolicy); err != nil {
		return err
	}
	return cluster.AwaitPolicies(ctx, b.cluster.Client)
}

// forContestants lets the policies that a user installs take each contestant for the operator, so that each write of
// each of them costs the API server the same.
func forContestants(o *unstructured.Unstructured) error {
	raw, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	is := fmt.Sprintf("request.userInfo.username.startsWith('%s')", userStem)
	return o.UnmarshalJSON([]byte(strings.NewReplacer(
		"request.userInfo.username == '"+cluster.OperatorUser+"'", is,
		"request.userInfo.username != '"+cluster.OperatorUser+"'", "!"+is).Replace(string(raw))))
}

// createNodes makes the nodes, and works on them a little, so that no contestant meets a cold server.
func (b *bench) createNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.phaseLimit())
	defer cancel()
	log.Printf("creating %d nodes", b.Nodes)
	if err := b.cluster.AddNodes(ctx, nodePrefix, b.Nodes, nodeOptions); err != nil {
		return err
	}
	if err := b.createPods(ctx); err != nil {
		return err
	}
	log.Printf("warming up the API server")
	if _, err := b.writer.setConditions(ctx, corev1.ConditionFalse); err != nil { // for heartbeats
		return err
	}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		some := newWriter(b.writer.client, b.Rules, b.writer.names[:min(b.Nodes, warm)]...)
		if _, err := b.turn(ctx, some, status); err != nil {
			return err
		}
	}
	return nil
}

// reset makes all nodes what they are before the first phase: without taints, with conditions that are not True. Only
// the last phase leaves a condition that is True, on the first node. The API server's own taint on new nodes goes here,
// too: no controller runs that would remove it.
func (b *bench) reset(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.phaseLimit())
	defer cancel()
	if err := b.turnFirst(ctx, corev1.ConditionFalse); err != nil {
		return err
	}
	if err := b.writer.clear(ctx); err != nil {
		return err
	}
	return errors.Join(cluster.Poll(ctx, b.phaseLimit(), b.watch.clean), b.cluster.Compact(ctx))
}

// sleep reports false when the context has ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

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
		rules, err := b.ruleStatuses(ctx)
		if err == nil && len(rules) > 0 {
			err = fmt.Errorf("%d deleted rules have finalizers", len(rules))
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
