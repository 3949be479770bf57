// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var server *cluster.Cluster

func TestNode(t *testing.T) {
	suite.Run(t, "Node controller")
}

var _ = BeforeSuite(func() { server = suite.Server() })

const (
	cni      = "example.com/CNIReady"
	taintKey = "readiness.example.com/network"
	pool     = "example.com/pool"
)

// world is a Reconciler on the real API server, called directly, with a clock that the test steps.
type world struct {
	*Reconciler
	ctx      context.Context
	pool     string
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	requests atomic.Int32
	// between is called before the next patch is sent, after the node was read.
	between func()
	// failing is what the next patches fail with; lost, whether they are carried out anyway.
	failing error
	lost    bool
	// reported is called before the next patch of conditions is sent.
	reported func()
	// unpublishable is what patches of conditions fail with.
	unpublishable error

	mu    sync.Mutex
	woken []string
}

func (w *world) RuleChanged(string) {}

func (w *world) Enqueue(nodes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = append(w.woken, nodes...)
}

var pools atomic.Int32

func newWorld(ctx context.Context) *world {
	w := &world{ctx: ctx, pool: fmt.Sprintf("pool-%d", pools.Add(1)),
		clock: clocktesting.NewFakePassiveClock(time.Now().Add(time.Minute))}
	w.restart()
	DeferCleanup(func(ctx context.Context) {
		w.failing, w.between = nil, nil
		nodes := &corev1.NodeList{}
		Expect(server.Client.List(ctx, nodes, client.MatchingLabels{"test": w.pool})).To(Succeed())
		for i := range nodes.Items {
			Expect(client.IgnoreNotFound(server.Client.Delete(ctx, &nodes.Items[i]))).To(Succeed())
		}
		rules := &v1alpha1.NodeReadinessRuleList{}
		Expect(server.Client.List(ctx, rules)).To(Succeed())
		for i := range rules.Items {
			Expect(client.IgnoreNotFound(server.Client.Delete(ctx, &rules.Items[i]))).To(Succeed())
		}
	})
	return w
}

// restart is a new process: nothing is remembered but what the API server knows.
func (w *world) restart() {
	w.recorder = events.NewFakeRecorder(1000)
	watched := interceptor.NewClient(server.Client, interceptor.Funcs{Patch: w.patch, SubResourcePatch: w.patchStatus})
	w.Reconciler = &Reconciler{Client: watched, Live: server.Client, Fleet: fleet.New(w, w.clock.Now),
		Evidence: noEvidence(), Recorder: w.recorder, Clock: w.clock}
}

func (w *world) patch(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch,
	opts ...client.PatchOption) error {
	if f := w.between; f != nil {
		w.between = nil
		f()
	}
	w.requests.Add(1)
	if w.failing != nil {
		if w.lost {
			_ = c.Patch(ctx, obj, p, opts...)
		}
		return w.failing
	}
	return c.Patch(ctx, obj, p, opts...)
}

func (w *world) patchStatus(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption) error {
	if f := w.reported; f != nil {
		w.reported = nil
		f()
	}
	w.requests.Add(1)
	if err := cmp.Or(w.unpublishable, w.failing); err != nil {
		return err
	}
	return c.SubResource(sub).Patch(ctx, obj, p, opts...)
}

// rules lets the controller take over the rules as they are on the API server.
func (w *world) rules() {
	list := &v1alpha1.NodeReadinessRuleList{}
	Expect(server.Client.List(w.ctx, list)).To(Succeed())
	var compiled []*ruleset.Rule
	for i := range list.Items {
		before := w.Fleet.Rules().Rule(list.Items[i].UID)
		after := ruleset.Compile(&list.Items[i], before, w.clock.Now())
		if before != nil && before.Equivalent(after) {
			after = before
		}
		compiled = append(compiled, after)
	}
	_, err := w.SetRules(w.ctx, ruleset.NewSet(compiled...))
	Expect(err).NotTo(HaveOccurred())
}

func (w *world) createRule(r *build.RuleWrapper) *v1alpha1.NodeReadinessRule {
	rule := r.Selector(pool, w.pool).Obj()
	Expect(server.Client.Create(w.ctx, rule)).To(Succeed())
	w.rules()
	return rule
}

// inForce lets a rule be in force since a time, as its status says after the first full pass.
func (w *world) inForce(rule *v1alpha1.NodeReadinessRule, since time.Time) {
	Expect(server.Client.Get(w.ctx, client.ObjectKeyFromObject(rule), rule)).To(Succeed())
	compiled := ruleset.Compile(rule, nil, w.clock.Now())
	rule.Status.ObservedGeneration = rule.Generation
	rule.Status.InForce = &v1alpha1.InForce{SelectorHash: compiled.SelectorHash}
	rule.Status.InForce.StartTime.Time = since
	Expect(server.Client.Status().Update(w.ctx, rule)).To(Succeed())
	w.rules()
}

// createNode stores a node of the world's pool, with exactly its taints: the API server adds one of its own to new
// nodes.
func (w *world) createNode(n *build.NodeWrapper) *corev1.Node {
	node := n.Label(pool, w.pool).Label("test", w.pool).Obj()
	status, taints := node.Status, node.Spec.Taints
	Expect(server.Client.Create(w.ctx, node)).To(Succeed())
	node.Spec.Taints = taints
	Expect(server.Client.Update(w.ctx, node)).To(Succeed())
	node.Status = status
	Expect(server.Client.Status().Update(w.ctx, node)).To(Succeed())
	return node
}

func (w *world) node(name string) *corev1.Node {
	node := &corev1.Node{}
	Expect(server.Client.Get(w.ctx, types.NamespacedName{Name: name}, node)).To(Succeed())
	return node
}

func (w *world) setCondition(name string, status corev1.ConditionStatus) {
	node := build.WrapNode(w.node(name)).Condition(cni, status, w.clock.Now()).Obj()
	Expect(server.Client.Status().Update(w.ctx, node)).To(Succeed())
}

func (w *world) update(name string, edit func(*corev1.Node)) {
	node := w.node(name)
	edit(node)
	Expect(server.Client.Update(w.ctx, node)).To(Succeed())
}

func (w *world) reconcile(name string) reconcile.Result {
	GinkgoHelper()
	result, err := w.try(name)
	Expect(err).NotTo(HaveOccurred())
	return result
}

func (w *world) try(name string) (reconcile.Result, error) {
	return w.Reconcile(w.ctx, request(name))
}

func (w *world) step(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// taintKeys are the keys of a node's taints, in order.
func (w *world) taintKeys(name string) []string {
	keys := []string{}
	for _, t := range w.node(name).Spec.Taints {
		keys = append(keys, t.Key)
	}
	return keys
}

func (w *world) held(name string) bool {
	return slices.Contains(w.taintKeys(name), taintKey)
}

func (w *world) material(rule *v1alpha1.NodeReadinessRule) fleet.Material {
	m, ok := w.Fleet.Material(rule.UID)
	Expect(ok).To(BeTrue())
	return m
}

func (w *world) events() []string { return suite.Events(w.recorder) }

// network is the usual rule.
func network() *build.RuleWrapper {
	return build.MakeRule("network").Condition(cni).Taint(taintKey, "pending", corev1.TaintEffectNoSchedule)
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// invalid is how the API server answers when a test of a JSON Patch fails, or a policy refuses the result.
func invalid(node string) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), node, nil)
}
