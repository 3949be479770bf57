// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

var besideFor = flag.Duration("beside", 15*time.Second, "for how long Nodegate and another controller are disturbed")

const (
	theirTaint, theirMarker = "readiness.k8s.io/Theirs", "readiness.k8s.io/bootstrap-completed-"
	ourTaint                = "readiness.k8s.io/Ours"
)

// TestBesideAnotherController lets Nodegate, in its own API group, and a stand-in for the Node Readiness Controller
// work on the same nodes. The operator is killed, nodes are relabelled, and rules of both are edited, created and
// deleted. Each write of the stand-in finds its taints and markers as it left them, and by the audit log the operator
// has tried to write nothing of the default API group.
func TestBesideAnotherController(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(cluster.Limit)
	ctx, c := t.Context(), cluster.ForTest(t, cluster.Options{CRD: true, AuditPolicy: auditPolicy})
	objects, err := kustomize(ctx, "config/own-group")
	cluster.Must(t, err)
	cluster.Must(t, applyTo(ctx, c.Client, objects))
	d, err := find[appsv1.Deployment](objects, "Deployment", serviceAccount)
	cluster.Must(t, err)
	args := slices.DeleteFunc(d.Spec.Template.Spec.Containers[0].Args, func(arg string) bool {
		return strings.Contains(arg, "webhook") || strings.Contains(arg, "-address=") || strings.Contains(arg, "leader-elect")
	})
	b := &beside{t: t, ctx: ctx, c: c, random: cluster.Random(t), nodes: map[string]besideNode{}}
	b.theirs, err = c.As("incumbent", "system:masters")
	cluster.Must(t, err)
	cluster.Must(t, b.theirs.Create(ctx, b.lease()))
	for i := range 12 {
		name := fmt.Sprintf("n-%d", i)
		b.nodes[name] = besideNode{}
		cluster.Must(t, c.Client.Create(ctx, build.MakeNode(name).Label("example.com/pool", "workers").Obj()))
	}
	b.names = slices.Sorted(maps.Keys(b.nodes))
	b.edit("rules.nodegate.io", "ours", "Ours", false)
	b.edit("readiness.node.x-k8s.io", "theirs", "Theirs", false)
	process, err := c.StartOperator(ctx, cluster.OperatorOptions{Args: args, Rendered: true})
	cluster.Must(t, err)

	for end := time.Now().Add(*besideFor); time.Now().Before(end); {
		if b.disturb(); b.random.IntN(100) == 0 {
			cluster.Must(t, process.Kill())
			b.kills++
			cluster.Must(t, process.Start(ctx))
		}
	}

	cluster.Must(t, client.IgnoreNotFound(c.Client.Delete(ctx, b.rule("readiness.node.x-k8s.io", "crossing", "Ours"))))
	b.edit("rules.nodegate.io", "ours", "Ours", false)
	for _, ready := range []bool{true, false} {
		for _, name := range b.names {
			b.label(name, "workers")
			cluster.Must(t, c.Report(ctx, name, conditionType, ready))
		}
		g.Eventually(func(g Gomega) {
			list := &corev1.NodeList{}
			g.Expect(c.Client.List(ctx, list)).To(Succeed())
			for i := range list.Items {
				g.Expect(cluster.HasTaint(&list.Items[i], ourTaint)).To(Equal(!ready), list.Items[i].Name)
			}
		}).Should(Succeed())
	}
	for _, name := range b.names {
		b.write(name)
	}
	cluster.Must(t, process.Stop())
	b.audit()
}

// beside is a cluster with Nodegate and another controller.
type beside struct {
	t      *testing.T
	ctx    context.Context
	c      *cluster.Cluster
	theirs client.Client // the other controller's
	random *rand.Rand
	names  []string
	nodes  map[string]besideNode
	kills  int
	writes int // of the other controller, to nodes
}

// besideNode is what the other controller has left on a node.
type besideNode struct {
	taints  []corev1.Taint
	markers map[string]string
}

func (b *beside) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: ruleset.IncumbentLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("incumbent-0"), RenewTime: new(metav1.NowMicro())},
	}
}

func (b *beside) rule(group, name, taint string) *unstructured.Unstructured {
	rule := ruleOf(b.t, group+"/"+v1alpha1.Version, name, taint)
	cluster.Must(b.t, unstructured.SetNestedField(rule.Object, "continuous", "spec", "enforcementMode"))
	return rule
}

// edit creates a rule, or changes whether it is in dry-run.
func (b *beside) edit(group, name, taint string, dryRun bool) {
	b.t.Helper()
	kube := b.c.Client
	cluster.Must(b.t, cluster.Poll(b.ctx, cluster.Limit, func() error { // it may be about to go
		rule := b.rule(group, name, taint)
		err := kube.Get(b.ctx, client.ObjectKeyFromObject(rule), rule)
		if apierrors.IsNotFound(err) {
			return kube.Create(b.ctx, rule)
		}
		if err == nil && rule.GetDeletionTimestamp() != nil {
			err = fmt.Errorf("rule %s is being deleted", name)
		}
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(rule.Object, dryRun, "spec", "dryRun"); err != nil {
			return err
		}
		return kube.Update(b.ctx, rule)
	}))
}

func (b *beside) label(node, pool string) {
	b.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	cluster.Must(b.t, b.c.Client.Patch(b.ctx, n, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/pool":%q}}}`, pool))))
}

// disturb does one thing.
func (b *beside) disturb() {
	b.t.Helper()
	node, dice := b.names[b.random.IntN(len(b.names))], b.random.IntN(100)
	switch {
	case dice < 35:
		cluster.Must(b.t, b.c.Report(b.ctx, node, conditionType, b.random.IntN(2) == 0))
	case dice < 75:
		b.write(node)
	case dice < 85:
		b.label(node, []string{"workers", "others"}[b.random.IntN(2)])
	case dice < 88:
		b.edit("rules.nodegate.io", "ours", "Ours", b.random.IntN(3) == 0)
	case dice < 90:
		b.edit("readiness.node.x-k8s.io", "theirs", "Theirs", b.random.IntN(3) == 0)
	case dice < 92:
		b.edit("readiness.node.x-k8s.io", "crossing", "Ours", b.random.IntN(3) == 0)
	case dice < 96:
		goes := []*unstructured.Unstructured{b.rule("rules.nodegate.io", "ours", "Ours"),
			b.rule("readiness.node.x-k8s.io", "crossing", "Ours")}[b.random.IntN(2)]
		cluster.Must(b.t, client.IgnoreNotFound(b.c.Client.Delete(b.ctx, goes)))
	default:
		lease := b.lease()
		cluster.Must(b.t, b.theirs.Patch(b.ctx, b.lease(), client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, lease.Spec.RenewTime.UTC().Format(metav1.RFC3339Micro)))))
	}
}

// write lets the other controller add or remove its taint and markers on a node, which must be as it left them.
func (b *beside) write(name string) {
	b.t.Helper()
	left := b.nodes[name]
	taint := corev1.Taint{Key: theirTaint, Value: fmt.Sprintf("v-%d", b.writes), Effect: corev1.TaintEffectNoSchedule}
	adds, marks := b.random.IntN(3) > 0, b.random.IntN(3) > 0
	marker := theirMarker + []string{"ours", "theirs", "00000000-0000-0000-0000-000000000000"}[b.random.IntN(3)]
	node := &corev1.Node{}
	cluster.Must(b.t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := b.theirs.Get(b.ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		if now := leftOn(node); !ruleset.SameTaints(now.taints, left.taints) || !maps.Equal(now.markers, left.markers) {
			b.t.Fatalf("node %s has %+v of the other controller, which left %+v", name, now, left)
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == theirTaint })
		if adds {
			node.Spec.Taints = slices.Insert(node.Spec.Taints, b.random.IntN(len(node.Spec.Taints)+1), taint)
		}
		if delete(node.Annotations, marker); marks {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, marker, fmt.Sprintf(`{"rule-name":"%d"}`, b.writes))
		}
		return b.theirs.Update(b.ctx, node)
	}))
	b.nodes[name] = leftOn(node)
	b.writes++
}

// leftOn returns what a node has of the other controller.
func leftOn(node *corev1.Node) besideNode {
	out := besideNode{markers: maps.Clone(node.Annotations)}
	maps.DeleteFunc(out.markers, func(key, _ string) bool { return !strings.HasPrefix(key, theirMarker) })
	for _, taint := range node.Spec.Taints {
		if taint.Key == theirTaint {
			out.taints = append(out.taints, taint)
		}
	}
	return out
}

// audit counts the operator's writes by kind, and fails the test if one was to an object of the other controller.
func (b *beside) audit() {
	b.t.Helper()
	events, err := cluster.ReadAudit[struct {
		Verb      string
		ObjectRef *struct{ APIGroup, Resource, Subresource, Name string }
	}](b.c.AuditLog())
	cluster.Must(b.t, err)
	counts := map[string]int{}
	for _, e := range events {
		if e.ObjectRef == nil || slices.Contains([]string{"get", "list", "watch"}, e.Verb) {
			continue
		}
		o := e.ObjectRef
		counts[o.APIGroup+"/"+o.Resource]++
		if o.APIGroup == "readiness.node.x-k8s.io" || o.Resource == "customresourcedefinitions" ||
			o.Name == ruleset.IncumbentLease {
			b.t.Errorf("the operator wrote to what is not its own: %s %+v", e.Verb, o)
		}
	}
	b.t.Logf("%d kills, %d writes of the other controller to nodes, writes of the operator: %v", b.kills, b.writes, counts)
	if counts["/nodes"] == 0 || counts["rules.nodegate.io/nodereadinessrules"] == 0 || b.writes == 0 {
		b.t.Errorf("a side has written nothing: %v", counts)
	}
}
