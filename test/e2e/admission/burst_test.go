// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/ledger"
)

const (
	nodes       = 200
	podsPerNode = 3 // fill it

	poolKey   = "example.com/pool"
	pool      = "burst"
	condition = "example.com/CNIReady"
	taintKey  = "readiness.example.com/cni"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// burst is nodes that join while pods wait for them.
type burst struct {
	*cluster.Env
	nodes    int
	ledger   *ledger.Ledger
	follower *ledger.Follower
}

func TestNoPodIsFasterThanTheGate(t *testing.T) {
	for engine, c := range map[string]struct {
		options cluster.OperatorOptions
		kill    bool // the operator, which the policy does not need
	}{
		"policy":  {options: cluster.OperatorOptions{Webhooks: true, Policies: true}, kill: true},
		"webhook": {options: cluster.OperatorOptions{Webhooks: true}},
	} {
		t.Run(engine, func(t *testing.T) {
			b := newBurst(t, nodes, c.options)
			b.rule(v1alpha1.NodeAdmissionTaint)
			b.run(c.kill)
			if early := b.ledger.Snapshot().Violations; len(early) > 0 {
				t.Errorf("%d pods were bound before the rule held: %v", len(early), early)
			}
			if got := b.metric("node_readiness_escaped_pods_total{rule=%q}", pool); got != 0 {
				t.Errorf("%d pods have escaped, says the metric", got)
			}
			if got := b.metric("node_readiness_taint_operations_total{operation=\"add\",rule=%q}", pool); got != 0 {
				t.Errorf("the controller had to taint %d nodes itself", got)
			}
			for _, other := range []string{"policy", "webhook"} {
				if got := b.admitted(other); other != engine && got != 0 {
					t.Errorf("%s has put %d taints on nodes", other, got)
				}
			}
			least := nodes
			if c.kill { // the killed operator took its counts with it
				least = nodes / 2
			}
			b.Eventually("all taints are counted", func() error {
				// The API server asks a webhook again where a request meets another one.
				if got := b.admitted(engine); got < least || engine == "policy" && got > nodes {
					return fmt.Errorf("%s has put %d taints on nodes, not %d", engine, got, least)
				}
				return nil
			})
		})
	}
}

// TestTheProofCanFail: a smaller burst without admission, and with a controller that is slow.
func TestTheProofCanFail(t *testing.T) {
	b := newBurst(t, nodes/5, cluster.OperatorOptions{Args: []string{"--kube-api-qps=5", "--kube-api-burst=5"}})
	b.rule(v1alpha1.NodeAdmissionNone)
	b.run(false)
	if len(b.ledger.Snapshot().Violations) == 0 {
		t.Error("no pod was bound before the rule held: the proof proves nothing")
	}
}

// newBurst starts a control plane and an operator.
func newBurst(t *testing.T, nodes int, o cluster.OperatorOptions) *burst {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{ControllerManager: true, Scheduler: true, Kwok: true, CRD: true})
	if o.Policies {
		c.Needs(t, cluster.MutatingAdmissionPolicies)
	}
	var err error
	c.Operator, err = c.StartOperator(t.Context(), o)
	cluster.Must(t, err)
	b := &burst{Env: cluster.NewEnv(t, c), nodes: nodes, ledger: &ledger.Ledger{
		Condition: condition, Taint: corev1.Taint{Key: taintKey, Effect: corev1.TaintEffectNoSchedule},
	}}
	b.follower, err = ledger.Follow(t.Context(), c, b.ledger, client.MatchingLabels{"app": pool})
	b.Must(err)
	return b
}

// rule creates the rule, and waits until new nodes are tainted.
func (b *burst) rule(admission v1alpha1.NodeAdmissionPolicy) {
	b.T.Helper()
	r := build.MakeRule(pool).Selector(poolKey, pool).Condition(condition).
		Taint(taintKey, "pending", corev1.TaintEffectNoSchedule)
	r.Spec.NodeAdmission = admission
	b.Must(b.Client.Create(b.T.Context(), r.Obj()))
	b.Eventually("the rule is in force", func() error {
		rule := &v1alpha1.NodeReadinessRule{}
		if err := b.Client.Get(b.T.Context(), client.ObjectKey{Name: pool}, rule); err != nil {
			return err
		}
		if rule.Status.InForce == nil {
			return fmt.Errorf("its status is %+v", rule.Status)
		}
		return nil
	})
	if admission == v1alpha1.NodeAdmissionNone {
		return
	}
	b.Eventually("new nodes are tainted", func() error {
		probe := build.MakeNode("probe").Label(poolKey, pool).Obj()
		if err := b.Client.Create(b.T.Context(), probe, client.DryRunAll); err != nil {
			return err
		}
		if !cluster.HasTaint(probe, taintKey) {
			return fmt.Errorf("its taints are %v", probe.Spec.Taints)
		}
		return nil
	})
}

// run creates the pods, lets the nodes join, each as its kubelet, half of them labelled by an administrator a moment
// later, lets each be ready some time after, and returns when all pods are bound. kill ends the operator half way, and
// starts it again.
func (b *burst) run(kill bool) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), 2*cluster.Limit)
	defer cancel()
	b.Must(b.Deploy(ctx, pool, int32(podsPerNode*b.nodes), "10", map[string]string{poolKey: pool}))
	b.await(ctx, "the pods are there", func(s ledger.Snapshot) int { return s.Pods })
	joined, ready := errgroup.Group{}, errgroup.Group{}
	joined.SetLimit(16)
	for i := range b.nodes {
		if kill && i == b.nodes/2 {
			b.Must(b.Operator.Kill())
		}
		joined.Go(func() error {
			name := fmt.Sprintf("%s-%d", pool, i)
			if err := b.join(ctx, name, i%2 == 0); err != nil {
				return err
			}
			ready.Go(func() error {
				time.Sleep(time.Second + rand.N(4*time.Second))
				return b.Cluster.Report(ctx, name, condition, true)
			})
			return nil
		})
	}
	b.Must(joined.Wait())
	b.Must(ready.Wait())
	if kill {
		b.Must(b.Operator.Start(ctx))
	}
	b.await(ctx, "the pods are bound", func(s ledger.Snapshot) int { return s.Bound })
	b.Must(b.follower.Settle(ctx))
}

// await waits until all pods are counted.
func (b *burst) await(ctx context.Context, what string, count func(ledger.Snapshot) int) {
	b.T.Helper()
	err := cluster.Poll(ctx, cluster.Limit, func() error {
		if n, want := count(b.ledger.Snapshot()), podsPerNode*b.nodes; n != want {
			return errors.Join(b.follower.Err(), fmt.Errorf("%d of %d", n, want))
		}
		return nil
	})
	if err != nil {
		b.T.Fatalf("%s: %v", what, err)
	}
}

// join registers a node. If it is not labelled by its kubelet, it is labelled by an administrator.
func (b *burst) join(ctx context.Context, name string, labelled bool) error {
	o := cluster.NodeOptions{Images: -1}
	if labelled {
		o.Labels = map[string]string{poolKey: pool}
	}
	if err := b.Register(ctx, name, o); err != nil || labelled {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, poolKey, pool)
	_, err := b.Clientset.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// admitted is how many taints an engine has put on nodes.
func (b *burst) admitted(engine string) int {
	b.T.Helper()
	return b.metric("node_readiness_admitted_taints_total{engine=%q}", engine)
}

// metric is the value of one of the operator's metrics, 0 if it has none.
func (b *burst) metric(format, label string) int {
	b.T.Helper()
	value, err := cluster.Metric(b.Metrics(), fmt.Sprintf(format, label))
	b.Must(err)
	return int(value)
}
