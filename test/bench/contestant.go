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

	operatorUser = "bench-operator"
	floorUser    = "bench-floor"
)

// contestant is one that is measured.
type contestant struct {
	name, user string
	process    func(kubeconfig string) cluster.Process
	// apply makes it act, on nodes that it has only watched until then; finish undoes that.
	apply  func(ctx context.Context) error
	finish func(ctx context.Context) error
	// profile is where a CPU profile of it is to be had.
	profile string
	// metrics is where its own metrics are; empty if it has none.
	metrics string
	rules   int // how many it has
}

func (b *bench) contestant(name string) *contestant {
	if name == operatorName {
		return b.operatorContestant()
	}
	return b.floorContestant()
}

func (b *bench) operatorContestant() *contestant {
	metrics, probes, pprof := freeAddress(), freeAddress(), ""
	c := &contestant{name: operatorName, user: operatorUser, rules: b.rules, metrics: "http://" + metrics + "/metrics"}
	if b.profile != "" {
		pprof = freeAddress()
		c.profile = "http://" + pprof + "/debug/pprof/profile"
	}
	c.process = func(kubeconfig string) cluster.Process {
		args := []string{
			"--kubeconfig=" + kubeconfig, "--leader-elect=false",
			"--metrics-bind-address=" + metrics, "--metrics-secure=false", "--health-probe-bind-address=" + probes,
			fmt.Sprintf("--node-concurrent-reconciles=%d", b.workers),
		}
		var env []string
		if limit := b.memoryTarget(); limit > 0 {
			env = append(env, fmt.Sprintf("GOMEMLIMIT=%d", limit/10*9))
		}
		if pprof != "" {
			args = append(args, "--pprof-bind-address="+pprof)
		}
		return cluster.Process{Name: c.name, Path: b.operator, Args: args, Env: env,
			Ready: answers("http://" + probes + "/readyz")}
	}
	c.apply = b.createRules
	c.finish = b.deleteRules
	return c
}

func (b *bench) floorContestant() *contestant {
	address := freeAddress()
	c := &contestant{name: floorName, user: floorUser, profile: "http://" + address + "/debug/pprof/profile"}
	c.process = func(kubeconfig string) cluster.Process {
		self, err := os.Executable()
		if err != nil {
			self = os.Args[0]
		}
		args := []string{
			"floor", "--kubeconfig=" + kubeconfig, "--address=" + address,
			fmt.Sprintf("--rules=%d", b.rules), fmt.Sprintf("--workers=%d", b.workers),
			"--evidence=" + b.evidence,
		}
		return cluster.Process{Name: c.name, Path: self, Args: args, Ready: answers("http://" + address + "/readyz")}
	}
	c.apply = func(ctx context.Context) error {
		_, err := request(ctx, http.MethodPost, "http://"+address+"/apply")
		return err
	}
	c.finish = func(context.Context) error { return nil }
	return c
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
