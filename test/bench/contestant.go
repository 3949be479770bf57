// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	operatorName = "operator"
	floorName    = "floor"

	// userStem and the name of a contestant are its user.
	userStem = "bench-"
)

// contestant is one that is measured.
type contestant struct {
	name, user string
	process    cluster.Process
	// apply makes it act, on nodes that it has only watched until then; finish undoes that.
	apply  func(ctx context.Context) error
	finish func(ctx context.Context) error
	// metrics is where its own metrics are; empty if it has none.
	metrics string
	rules   int // how many it has
}

func (b *bench) contestant(name string) (*contestant, error) {
	c := &contestant{name: name, user: userStem + name}
	kubeconfig, err := b.cluster.KubeconfigFor(c.user, "system:masters")
	if err != nil {
		return nil, err
	}
	base := ""
	c.process, base = b.command(name, b.operator, kubeconfig, false)
	if name == operatorName {
		c.rules, c.metrics, c.apply, c.finish = b.rules, base+"/metrics", b.createRules, b.deleteRules
		return c, nil
	}
	c.apply = func(ctx context.Context) error { return applyFloor(ctx, base) }
	c.finish = func(context.Context) error { return nil }
	return c, nil
}

// applyFloor makes the floor act.
func applyFloor(ctx context.Context, base string) error {
	_, err := request(ctx, http.MethodPost, base+"/apply")
	return err
}

// command returns how a contestant is started, and the URL below which its metrics are, or what the floor serves.
func (o *options) command(name, operator, kubeconfig string, elect bool) (p cluster.Process, base string) {
	address, probes := freeAddress(), freeAddress()
	base = "http://" + address
	if name == floorName {
		self, err := os.Executable()
		if err != nil {
			self = os.Args[0]
		}
		return cluster.Process{Name: name, Path: self, Ready: answers(base + "/readyz"), Args: []string{
			"floor", "--kubeconfig=" + kubeconfig, "--address=" + address, fmt.Sprintf("--rules=%d", o.rules),
			"--evidence=" + o.evidence,
		}}, base
	}
	p = cluster.Process{Name: name, Path: operator, Ready: answers("http://" + probes + "/readyz"), Args: []string{
		"--kubeconfig=" + kubeconfig, fmt.Sprintf("--leader-elect=%t", elect), "--leader-election-namespace=default",
		"--metrics-bind-address=" + address, "--metrics-secure=false", "--health-probe-bind-address=" + probes,
		fmt.Sprintf("--node-concurrent-reconciles=%d", workers),
	}}
	if limit := o.memoryTarget(); limit > 0 {
		p.Env = append(p.Env, fmt.Sprintf("GOMEMLIMIT=%d", min(limit/10*9, limit-64<<20)))
	}
	return p, base
}

func (b *bench) createRules(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for i := range b.rules {
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
	for i := range b.rules {
		rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: ruleName(i)}}
		if err := client.IgnoreNotFound(b.cluster.Client.Delete(ctx, rule)); err != nil {
			return err
		}
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

// ruleStatus is the status of a rule, and the size of its JSON.
type ruleStatus struct {
	name  string
	nodes v1alpha1.NodeCounts
	bytes int
}

func (b *bench) ruleStatuses(ctx context.Context) ([]ruleStatus, error) {
	var out []ruleStatus
	for i := range b.rules {
		path := fmt.Sprintf("/apis/%s/nodereadinessrules/%s", v1alpha1.GroupVersion, ruleName(i))
		raw, err := b.admin.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading rule %q: %w", ruleName(i), err)
		}
		rule := &v1alpha1.NodeReadinessRule{}
		if err := json.Unmarshal(raw, rule); err != nil {
			return nil, fmt.Errorf("reading rule %q: %w", ruleName(i), err)
		}
		s := ruleStatus{name: rule.Name, bytes: len(raw)}
		if rule.Status.Nodes != nil {
			s.nodes = *rule.Status.Nodes
		}
		out = append(out, s)
	}
	return out, nil
}

// answers returns a function that asks for a 200.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := request(ctx, http.MethodGet, url)
		return err
	}
}

func request(ctx context.Context, method, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, bytes.TrimSpace(body))
	}
	return body, nil
}

// freeAddress is a loopback port without a listener.
func freeAddress() string {
	address, err := cluster.FreeAddress()
	if err != nil {
		return "127.0.0.1:0"
	}
	return address
}
