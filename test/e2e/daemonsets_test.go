// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/ledger"
)

const (
	agentsTaint = "example.com/agents"
	otherTaint  = "example.com/other"
	zone        = "example.com/zone"
	generation  = "example.com/generation"
)

// newNamespace makes a namespace in which pods can be created, and whose DaemonSets the operator may read. Discard it
// after the nodes are created: pods end while their nodes are there.
func (e *env) newNamespace() *corev1.Namespace {
	e.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Name}}
	e.Must(e.Client.Create(e.T.Context(), namespace))
	e.Eventually("the namespace has its service account", func() error {
		_, err := e.Clientset.CoreV1().ServiceAccounts(e.Name).Get(e.T.Context(), "default", metav1.GetOptions{})
		return err
	})
	granted, err := e.ApplyConfig(e.T.Context(), func(o *unstructured.Unstructured) error {
		o.SetNamespace(e.Name)
		return nil
	}, "daemonset-evidence/role.yaml")
	e.Must(err)
	for _, o := range granted {
		e.Discard(o)
	}
	return namespace
}

// followGates records from now on which nodes have a taint. The function that it returns waits until everything up to
// now is recorded.
func (e *env) followGates(key string) (l *ledger.Ledger, settle func()) {
	e.T.Helper()
	l = &ledger.Ledger{Taint: corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	f, err := ledger.Follow(e.T.Context(), e.Cluster, l, client.MatchingLabels{"app": "none"})
	e.Must(err)
	return l, func() {
		e.T.Helper()
		e.Must(f.Settle(e.T.Context()))
	}
}

// TestTheDaemonSetsThatBelongAreThoseOfTheController compares the DaemonSets that belong on nodes with the pods that
// the DaemonSet controller of Kubernetes creates, while nodes have the taints of their start and after that.
func TestTheDaemonSetsThatBelongAreThoseOfTheController(t *testing.T) {
	const nodes, sets = 12, 240
	e := newPool(t, 0)
	g := &generator{Rand: cluster.Random(t), env: e}

	rule := build.MakeRule(e.Name).Selector(cluster.PoolKey, e.Name).BootstrapOnly().DaemonSets(e.Name).
		Taint(agentsTaint, "", corev1.TaintEffectNoSchedule).Obj()
	other := build.MakeRule(e.Name+"-other").Selector(cluster.PoolKey, e.Name).Selector(zone, "b").
		Condition(cluster.GPUReady).
		Taint(otherTaint, "", corev1.TaintEffectNoSchedule).Obj()
	namespace := e.newNamespace()
	e.Create(rule)
	e.Create(other)
	l, settle := e.followGates(agentsTaint)
	for range nodes {
		g.join()
	}
	e.Discard(namespace)
	for i, name := range e.Nodes {
		e.Eventually("the node has the taints of its start", g.starting(i))
		e.Eventually("the node is held", e.Tainted(name, agentsTaint, true))
	}
	g.everywhere()
	for i := range sets - 1 {
		e.Must(e.Client.Create(t.Context(), g.daemonSet(strconv.Itoa(i))))
	}

	all := &appsv1.DaemonSetList{}
	e.Must(e.Client.List(t.Context(), all, client.InNamespace(e.Name)))
	found := make([]*evidence.DaemonSet, len(all.Items))
	for i := range all.Items {
		found[i] = evidence.CompileDaemonSet(&all.Items[i])
	}
	now := time.Now()
	known := ruleset.Known{Cluster: evidence.Cluster{
		DaemonSets:             func(string) []*evidence.DaemonSet { return found },
		TransientTaintPrefixes: evidence.DefaultTransientTaintPrefixes}}
	set := ruleset.NewSet(ruleset.Compile(rule, nil, now), ruleset.Compile(other, nil, now)).
		Resolve(known, ruleset.NewSet())
	compiled := set.Rule(rule.UID)

	// With all taints of the start, nothing runs but what tolerates each of them, and no gate opens.
	anyTaint := func(*corev1.Taint) bool { return true }
	e.Eventually("the controller has created the pods that tolerate all taints",
		e.placed(func(n *corev1.Node) []*evidence.DaemonSet {
			return slices.DeleteFunc(slices.Clone(found), func(d *evidence.DaemonSet) bool {
				return !d.Fits(n) || d.RepelledBy(n.Spec.Taints, anyTaint) != nil
			})
		}))
	e.Eventually("all of them are ready", e.podsReady)
	closed := func() error {
		for _, name := range e.Nodes { // a node may be created without the taint, and gets it at once
			if gates := l.Gates(name); !gates[len(gates)-1] || len(gates) > 2 {
				return fmt.Errorf("the gate of node %s has opened: %v", name, gates)
			}
		}
		return nil
	}
	e.LookedAt(e.Nodes)
	settle()
	e.Must(closed())

	for i := range e.Nodes {
		g.started(i)
	}
	for _, name := range e.Nodes {
		e.Eventually("the node is released", e.Tainted(name, agentsTaint, false))
	}
	belonging, leftOut := 0, 0
	e.Eventually("the controller has created the pods that belong", e.placed(func(n *corev1.Node) []*evidence.DaemonSet {
		p := compiled.DaemonSets()[0].On(n, compiled.Taint, set.ManagerName)
		belonging, leftOut = belonging+len(p.Belong), leftOut+len(p.Ignored)
		return slices.Concat(p.Belong, p.Ignored)
	}))
	if belonging == 0 || leftOut == 0 {
		t.Errorf("%d belong, %d are left out: the generator makes too few", belonging, leftOut)
	}
	settle()
	for _, name := range e.Nodes {
		if gates := l.Gates(name); len(gates) > 3 {
			t.Errorf("the gate of node %s has moved: %v", name, gates)
		}
	}
}

// placed is a check: the pods on each node are those of the DaemonSets that want returns.
func (e *env) placed(want func(*corev1.Node) []*evidence.DaemonSet) func() error {
	return func() error {
		pods := &corev1.PodList{}
		if err := e.Client.List(e.T.Context(), pods, client.InNamespace(e.Name)); err != nil {
			return err
		}
		on := map[string][]string{}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp.IsZero() {
				node := evidence.NodeOf(p)
				on[node] = append(on[node], metav1.GetControllerOf(p).Name)
			}
		}
		for _, name := range e.Nodes {
			var names []string
			node := e.Node(name)
			for _, d := range want(node) {
				names = append(names, d.Name)
			}
			slices.Sort(names)
			slices.Sort(on[name])
			if diff := cmp.Diff(names, on[name]); diff != "" {
				return fmt.Errorf("node %s with labels %v and taints %v: the operator's set (-), the controller's pods (+):\n%s",
					name, node.Labels, node.Spec.Taints, diff)
			}
		}
		return nil
	}
}

// podsReady is a check: all pods of the test's namespace are ready.
func (e *env) podsReady() error {
	pods := &corev1.PodList{}
	if err := e.Client.List(e.T.Context(), pods, client.InNamespace(e.Name)); err != nil {
		return err
	}
	for i := range pods.Items {
		if !slices.ContainsFunc(pods.Items[i].Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("pod %s of %d is not ready", pods.Items[i].Name, len(pods.Items))
		}
	}
	return nil
}

// generator makes nodes that are starting, and DaemonSets that belong on some of them.
type generator struct {
	*rand.Rand
	*env
	starts []start
}

// start is what keeps pods off a node while it starts, and goes: a taint, a condition for which Kubernetes adds a
// taint, or a kubelet that is not ready.
type start struct {
	taint   corev1.Taint
	network bool
}

var starts = []start{
	{taint: corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}},
	{taint: corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}},
	{taint: corev1.Taint{Key: "node.cilium.io/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}},
	{taint: corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}, network: true},
	{taint: corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}},
}

// lasting are taints that stay on a node.
var lasting = []corev1.Taint{
	{Key: "example.com/gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule},
	{Key: "example.com/dedicated", Value: "a", Effect: corev1.TaintEffectNoExecute},
	{Key: "example.com/dedicated", Value: "b", Effect: corev1.TaintEffectNoExecute},
	{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
	{Key: "example.com/soft", Effect: corev1.TaintEffectPreferNoSchedule},
}

// chance is true in so many of a hundred cases.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func one[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// join adds a node that is starting.
func (g *generator) join() {
	g.T.Helper()
	s := one(g, starts...)
	o := cluster.NodeOptions{Images: -1, Labels: map[string]string{cluster.PoolKey: g.Name, zone: one(g, "a", "b", "c"),
		generation: one(g, "1", "2", "3", "4", "new")}}
	if g.chance(50) {
		o.Labels["example.com/ssd"] = ""
	}
	if g.chance(40) {
		o.Taints = append(o.Taints, one(g, lasting...))
	}
	switch {
	case s.taint.Key == corev1.TaintNodeNotReady:
		o.Annotations = map[string]string{cluster.KubeletAnnotation: "not-ready"}
	case !s.network:
		o.Taints = append(o.Taints, s.taint)
	}
	node := cluster.NewNode(fmt.Sprintf("%s-%d", g.Name, len(g.Nodes)), o)
	node.Spec.Unschedulable = g.chance(10)
	if s.network {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable,
			Status: corev1.ConditionTrue, Reason: "NoRoute"})
	}
	g.Create(node)
	g.Nodes, g.starts = append(g.Nodes, node.Name), append(g.starts, s)
}

// starting is a check: node i has the taint of its start. Another with the same key and another effect is not enough:
// the controller of DaemonSets would create pods that tolerate only that one, and no scheduler would bind them.
func (g *generator) starting(i int) func() error {
	return func() error {
		node, want := g.Node(g.Nodes[i]), g.starts[i].taint
		if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&want) }) {
			return fmt.Errorf("node %s has taints %v, and not %s", node.Name, node.Spec.Taints, want.ToString())
		}
		return nil
	}
}

// started ends the start of node i.
func (g *generator) started(i int) {
	g.T.Helper()
	name, s := g.Nodes[i], g.starts[i]
	g.Report(name, cluster.GPUReady, true)
	switch {
	case s.taint.Key == corev1.TaintNodeNotReady:
		g.SetKubelet(name, true)
	case s.network:
		g.PatchNode(name, `{"status":{"conditions":[{"type":"NetworkUnavailable","status":"False"}]}}`, "status")
	default:
		g.EditNode(name, func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == s.taint.Key })
		})
	}
	for _, key := range []string{s.taint.Key, otherTaint} {
		g.Eventually("the start ends", g.Tainted(name, key, false))
	}
}

// everywhere creates a DaemonSet that runs on each node as soon as its start has ended: without its pod, no gate opens.
func (g *generator) everywhere() {
	g.T.Helper()
	d := build.MakeDaemonSet(g.Name, "everywhere").Tolerate(agentsTaint).Tolerate(otherTaint)
	for _, t := range lasting {
		d.Tolerate(t.Key)
	}
	g.Must(g.Client.Create(g.T.Context(), d.Obj()))
}

// daemonSet makes a DaemonSet.
func (g *generator) daemonSet(name string) *appsv1.DaemonSet {
	d := build.MakeDaemonSet(g.Name, "set-"+name)
	if g.chance(80) {
		d.Tolerate(agentsTaint)
	}
	for range g.IntN(4) {
		d.Template(g.tolerate)
	}
	if g.chance(5) {
		d.Tolerate("")
	}
	if g.chance(60) {
		d.Select(zone, one(g, "a", "b", "c"))
	}
	if g.chance(30) {
		d.Select("example.com/ssd", "")
	}
	d.Template(func(p *corev1.PodSpec) {
		p.HostNetwork = g.chance(30)
		if g.chance(5) {
			p.NodeName = one(g, g.Nodes...)
		}
		if g.chance(50) {
			var terms []corev1.NodeSelectorTerm
			for range 1 + g.IntN(2) {
				terms = append(terms, g.term())
			}
			p.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	})
	return d.Obj()
}

// tolerate adds a toleration, with a taint's effect and value or with others.
func (g *generator) tolerate(p *corev1.PodSpec) {
	keys := map[string]bool{otherTaint: true}
	for _, t := range lasting {
		keys[t.Key] = true
	}
	for _, s := range starts {
		keys[s.taint.Key] = true
	}
	t := corev1.Toleration{Key: one(g, slices.Sorted(maps.Keys(keys))...), Operator: corev1.TolerationOpExists,
		Effect: one(g, "", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)}
	if g.chance(40) {
		t.Operator, t.Value = one(g, "", corev1.TolerationOpEqual), one(g, "", "true", "a", "b")
	}
	if t.Effect == corev1.TaintEffectNoExecute && g.chance(30) {
		t.TolerationSeconds = new(int64(86400))
	}
	p.Tolerations = append(p.Tolerations, t)
}

// term makes a term of a node affinity.
func (g *generator) term() corev1.NodeSelectorTerm {
	var out corev1.NodeSelectorTerm
	if g.chance(10) {
		out.MatchFields = []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField,
			Operator: one(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{one(g, g.Nodes...)}}}
	}
	for range g.IntN(3) { // none at all matches no node
		e := corev1.NodeSelectorRequirement{Key: one(g, zone, "example.com/ssd", generation), Operator: one(g,
			corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
			corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)}
		switch e.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			e.Values = []string{one(g, "a", "b", "1", "2"), one(g, "c", "", "3", "new")}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			e.Values = []string{one(g, "1", "2", "3")}
		}
		out.MatchExpressions = append(out.MatchExpressions, e)
	}
	return out
}

// TestARolloutTaintsNoNode updates a DaemonSet on many nodes, which replaces each of its pods.
func TestARolloutTaintsNoNode(t *testing.T) {
	const nodes = 30
	e := newPool(t, nodes)
	e.Discard(e.newNamespace())
	d := build.MakeDaemonSet(e.Name, "agent").Tolerate("").Obj()
	d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("20%"))}}
	e.Create(d)
	e.Create(build.MakeRule(e.Name).Selector(cluster.PoolKey, e.Name).MaxUnavailable("100%").
		DaemonSets(e.Name).
		Taint(agentsTaint, "", corev1.TaintEffectNoSchedule).Obj())
	e.Eventually("all nodes are released", e.Counts(e.Name, v1alpha1.NodeCounts{Matched: nodes, Ready: nodes}))
	e.Eventually("no node has the taint", func() error {
		for _, name := range e.Nodes {
			if err := e.Tainted(name, agentsTaint, false)(); err != nil {
				return err
			}
		}
		return nil
	})

	l, settle := e.followGates(agentsTaint)
	e.Edit(d, func() { d.Spec.Template.Annotations = map[string]string{"example.com/version": "2"} })
	e.Eventually("the rollout is complete", func() error {
		if err := e.Client.Get(context.Background(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		s := &d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedNumberScheduled != nodes || s.NumberReady != nodes {
			return fmt.Errorf("its status is %+v", *s)
		}
		return nil
	})
	e.Eventually("all nodes are ready again", e.Counts(e.Name, v1alpha1.NodeCounts{Matched: nodes, Ready: nodes}))
	settle()
	for _, name := range e.Nodes {
		if gates := l.Gates(name); !slices.Equal(gates, []bool{false}) {
			t.Errorf("node %s was tainted: %v", name, gates)
		}
	}
}
