// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/api/v1alpha1"
	nodecontroller "github.com/nodegate/nodegate/internal/controller/node"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/replace/handover"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

const (
	markKey = "example.com/replace"
	// step is a little more than the time between two searches.
	step = searchInterval + time.Second
	// searchInterval is the least time between two searches for a node to hand over.
	searchInterval = 30 * time.Second
)

// nodeClaims is the kind of Karpenter's NodeClaims.
var nodeClaims = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}

// provider is a pool of nodes with a remediator, or with a stand-in for Karpenter: it deletes each node that is handed
// over, and makes a new one that never becomes ready. Nodes are judged by the real controller.
type provider struct {
	ctx      context.Context
	pool     string
	rule     *v1alpha1.NodeReadinessRule
	clock    *clocktesting.FakePassiveClock
	compiled *ruleset.Rule
	nodes    *nodecontroller.Reconciler
	rules    *Reconciler
	events   *events.FakeRecorder
	gone     []string // nodes that were deleted, and the controller has not heard of
	made     int
	// keeps: nodes that are handed over stay.
	keeps bool
	// handed is when each node was handed over.
	handed map[types.UID]time.Time
	// unreadable: pods cannot be listed.
	unreadable bool
	// refuses is the answer to a patch of a node.
	refuses error
}

var providers atomic.Int32

// newProvider makes a rule that replaces nodes, by the annotation, or without a key by the NodeClaim, and its nodes.
func newProvider(ctx context.Context, key string, nodes int) *provider {
	p := &provider{ctx: ctx, pool: fmt.Sprintf("provider-%d", providers.Add(1)), handed: map[types.UID]time.Time{},
		clock: clocktesting.NewFakePassiveClock(time.Now().Add(time.Second))}
	p.rule = network().Named(p.pool).Selector("pool", p.pool).Replace(1, 20, key).Obj()
	Expect(server.Client.Create(ctx, p.rule)).To(Succeed())
	DeferCleanup(p.cleanUp)
	for range nodes {
		p.makeNode()
	}
	p.start()
	return p
}

func (p *provider) cleanUp(ctx context.Context) {
	p.ctx = ctx
	for _, n := range p.list() {
		Expect(client.IgnoreNotFound(server.Client.Delete(ctx, &n))).To(Succeed())
	}
	p.read()
	p.rule.Finalizers = nil
	Expect(server.Client.Update(ctx, p.rule)).To(Succeed())
	Expect(client.IgnoreNotFound(server.Client.Delete(ctx, p.rule))).To(Succeed())
}

func (p *provider) replacesClaims() bool { return p.rule.Spec.Timeout.Replace.Annotation == nil }

func (p *provider) makeNode() {
	GinkgoHelper()
	p.made++
	n := build.MakeNode(fmt.Sprintf("%s-%d", p.pool, p.made)).Label("pool", p.pool).Obj()
	if p.replacesClaims() {
		claim := p.claim(n.Name)
		Expect(server.Client.Create(p.ctx, claim)).To(Succeed())
		Expect(unstructured.SetNestedField(claim.Object, n.Name, "status", "nodeName")).To(Succeed())
		Expect(server.Client.Status().Update(p.ctx, claim)).To(Succeed())
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: n.Name,
			UID: claim.GetUID()}}
	}
	Expect(server.Client.Create(p.ctx, n)).To(Succeed())
}

func (p *provider) claim(name string) *unstructured.Unstructured {
	claim := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"nodeClassRef": map[string]any{"group": "example.com", "kind": "NodeClass", "name": "default"},
		"requirements": []any{}}}}
	claim.SetGroupVersionKind(nodeClaims)
	claim.SetName(name)
	return claim
}

// start is a new process: nothing is remembered but what the API server knows.
func (p *provider) start() {
	GinkgoHelper()
	p.events, p.compiled = events.NewFakeRecorder(1000), nil
	f := fleet.New(deaf{}, p.clock.Now)
	p.nodes = &nodecontroller.Reconciler{Client: server.Client, Live: server.Client, Fleet: f,
		Evidence: sources.New(nil, nil), Recorder: p.events, Clock: p.clock}
	c := interceptor.NewClient(server.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, pods := l.(*corev1.PodList); pods && p.unreadable {
				return errors.New("pods cannot be listed")
			}
			return c.List(ctx, l, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			if _, node := o.(*corev1.Node); node && p.refuses != nil {
				return p.refuses
			}
			return c.Patch(ctx, o, patch, opts...)
		},
	})
	p.rules = &Reconciler{Client: c, Fleet: f, Recorder: p.events, Clock: p.clock, Handover: &handover.Handover{
		Client: c, Live: c, Fleet: f, Recorder: p.events, Clock: p.clock, Expired: p.nodes.Expired}}
	p.takeOver()
}

// takeOver brings the rule as it is on the API server to the controllers.
func (p *provider) takeOver() {
	GinkgoHelper()
	p.read()
	after := ruleset.Compile(p.rule, p.compiled, p.clock.Now())
	if p.compiled == nil || !p.compiled.Equivalent(after) {
		p.compiled = after
	}
	_, err := p.nodes.SetRules(p.ctx, ruleset.NewSet(p.compiled))
	Expect(err).NotTo(HaveOccurred())
}

func (p *provider) read() *v1alpha1.NodeReadinessRule {
	GinkgoHelper()
	Expect(server.Client.Get(p.ctx, client.ObjectKeyFromObject(p.rule), p.rule)).To(Succeed())
	return p.rule
}

func (p *provider) edit(edit func(*v1alpha1.NodeReadinessRuleSpec)) {
	GinkgoHelper()
	edit(&p.read().Spec)
	Expect(server.Client.Update(p.ctx, p.rule)).To(Succeed())
	p.takeOver()
}

func (p *provider) list() []corev1.Node {
	GinkgoHelper()
	list := &corev1.NodeList{}
	Expect(server.Client.List(p.ctx, list, client.MatchingLabels{"pool": p.pool})).To(Succeed())
	return list.Items
}

// play lets so many steps of time pass. In each, the controllers look at all nodes and the rule, and the provider
// replaces what is handed over.
func (p *provider) play(steps int) {
	GinkgoHelper()
	for range steps {
		for _, name := range p.gone {
			p.look(name)
		}
		p.gone = nil
		for _, n := range p.list() {
			p.look(n.Name)
		}
		_, err := p.rules.Reconcile(p.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p.rule)})
		Expect(err).NotTo(HaveOccurred())
		p.remediate()
		p.clock.SetTime(p.clock.Now().Add(step))
	}
}

func (p *provider) look(name string) {
	GinkgoHelper()
	_, err := p.nodes.Reconcile(p.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	Expect(err).NotTo(HaveOccurred())
}

// remediate notes which nodes are handed over, and replaces them.
func (p *provider) remediate() {
	GinkgoHelper()
	for _, n := range p.list() {
		handed := n.Annotations[markKey] == "true"
		if p.replacesClaims() {
			claim := p.claim(n.Name)
			err := server.Client.Get(p.ctx, client.ObjectKeyFromObject(claim), claim)
			Expect(client.IgnoreNotFound(err)).To(Succeed())
			handed = err != nil
		}
		if _, known := p.handed[n.UID]; !handed || known {
			continue
		}
		p.handed[n.UID] = p.clock.Now()
		if p.keeps {
			continue
		}
		Expect(server.Client.Delete(p.ctx, &n)).To(Succeed())
		p.gone = append(p.gone, n.Name)
		p.makeNode()
	}
}

func (p *provider) ready(i int) {
	GinkgoHelper()
	n := build.WrapNode(&p.list()[i]).Condition("example.com/Ready", corev1.ConditionTrue, p.clock.Now()).Obj()
	Expect(server.Client.Status().Update(p.ctx, n)).To(Succeed())
}

// maintain sets the maintenance annotation of all nodes; null removes it.
func (p *provider) maintain(value string) {
	GinkgoHelper()
	for _, n := range p.list() {
		Expect(server.Client.Patch(p.ctx, &n, client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.MaintenanceAnnotation, value)))).To(Succeed())
	}
}

// told counts events of a reason.
func (p *provider) told(reason string) (n int) {
	for _, e := range suite.Events(p.events) {
		if strings.Contains(e, reason) {
			n++
		}
	}
	return n
}

func (p *provider) condition() *metav1.Condition {
	return meta.FindStatusCondition(p.read().Status.Conditions, v1alpha1.ConditionReplacing)
}

var _ = Describe("Nodes that never become ready", func() {
	BeforeEach(func(ctx context.Context) {
		Expect(server.InstallPinnedCRD(ctx, "sigs.k8s.io/karpenter", "pkg/apis/crds/karpenter.sh_nodeclaims.yaml")).
			To(Succeed())
	})

	It("are handed over by their NodeClaims, which may only name them, three in a row", func(ctx context.Context) {
		p := newProvider(ctx, "", 2)
		p.own("", "")
		p.play(9)
		Expect(p.handed).To(HaveLen(3))
		Expect(p.read().Status.Replacements.Last).To(HaveLen(3))
		Expect(p.condition()).To(HaveField("Reason", ReasonExhausted))
	})

	It("tells once that it has stopped; a node that becomes ready lets it go on, and so does an edit", func(
		ctx context.Context) {
		p := newProvider(ctx, markKey, 2)
		p.play(9)
		Expect(p.handed).To(HaveLen(3))
		Expect(p.told(ReasonExhausted)).To(Equal(1))
		exhausted := func() float64 {
			value := -1.0
			families, err := metrics.Registry.Gather()
			Expect(err).NotTo(HaveOccurred())
			for _, family := range families {
				for _, m := range family.GetMetric() {
					if family.GetName() == "node_readiness_replacements_exhausted" && m.GetLabel()[0].GetValue() == p.pool {
						value = m.GetGauge().GetValue()
					}
				}
			}
			return value
		}
		Expect(exhausted()).To(BeEquivalentTo(1))
		p.ready(0)
		p.play(6)
		Expect(p.handed).To(HaveLen(6), "after a node became ready")
		Expect(p.read().Status.Replacements.LastReadyTime).NotTo(BeNil())
		p.start()
		p.play(2)
		Expect(p.handed).To(HaveLen(6), "after a restart")
		Expect(exhausted()).To(BeEquivalentTo(1))
		p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.Suspend = true })
		p.play(1)
		Expect(exhausted()).To(BeZero(), "suspended")
		p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) {
			s.Suspend, s.Timeout.Replace.MaxPerHour = false, new(int32(10))
		})
		p.play(3)
		Expect(len(p.handed)).To(BeNumerically(">", 6), "after an edit")
		p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) {
			s.Timeout.Action, s.Timeout.Replace = v1alpha1.TimeoutActionKeep, nil
		})
		_, err := p.rules.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p.rule)})
		Expect(err).NotTo(HaveOccurred())
		Expect(exhausted()).To(BeEquivalentTo(-1), "the rule replaces no nodes")
	})

	DescribeTable("are not handed over", func(ctx context.Context, prevent, allow func(*provider)) {
		p := newProvider(ctx, markKey, 1)
		prevent(p)
		p.play(5)
		Expect(p.handed).To(BeEmpty())
		Expect(p.read().Status.Replacements).To(BeNil(), "no intention")
		if allow != nil {
			allow(p)
			p.play(3)
			Expect(p.handed).NotTo(BeEmpty())
		}
	},
		Entry("while a pod runs there, also of the system, beside pods that are part of the node", func(p *provider) {
			p.runPods(build.MakePod(metav1.NamespaceSystem, "app"), build.MakeDaemonSet("default", "agent").Pod("x", time.Now()),
				build.MakePod("default", "static").Annotation(corev1.MirrorPodAnnotationKey, "x"))
		}, func(p *provider) {
			Expect(server.Client.Delete(p.ctx, build.MakePod(metav1.NamespaceSystem, "app").Obj(),
				client.GracePeriodSeconds(0))).To(Succeed())
		}),
		Entry("while pods cannot be listed", func(p *provider) { p.unreadable = true },
			func(p *provider) { p.unreadable = false }),
		Entry("in dry-run", func(p *provider) { p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.DryRun = true }) }, nil),
		Entry("by a suspended rule", func(p *provider) {
			p.play(1)
			p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.Suspend = true })
		}, func(p *provider) { p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.Suspend = false }) }),
	)

	It("count only if they may have been handed over, and a failure is shown before the limits", func(
		ctx context.Context) {
		p := newProvider(ctx, markKey, 4)
		p.refuses = apierrors.NewForbidden(corev1.Resource("nodes"), "x", errors.New("a policy refuses the annotation"))
		p.play(9)
		Expect(p.read().Status.Replacements).To(BeNil(), "refused")
		Expect(p.condition()).To(HaveField("Reason", ReasonReplaceFailed))
		p.refuses = apierrors.NewInternalError(errors.New("no answer"))
		p.play(9)
		Expect(p.read().Status.Replacements.Last).To(HaveLen(3), "unknown outcomes")
		Expect(p.condition()).To(HaveField("Reason", ReasonReplaceFailed))
	})

	It("lose the annotation when they are released after all, or are in maintenance", func(ctx context.Context) {
		p := newProvider(ctx, markKey, 2)
		p.keeps = true
		p.play(4)
		Expect(p.handed).To(HaveLen(2))
		result, err := p.rules.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p.rule)})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", searchInterval)),
			"a mark may be removed at any time")
		p.ready(0)
		p.play(1)
		Expect(p.list()[0].Annotations).NotTo(HaveKey(markKey))
		Expect(p.list()[1].Annotations).To(HaveKey(markKey))
		p.maintain(`"disk"`)
		p.play(1)
		Expect(p.list()[1].Annotations).NotTo(HaveKey(markKey))
		p.maintain("null")
		p.play(2)
		Expect(p.list()[1].Annotations).To(HaveKey(markKey))
		Expect(p.read().Status.Replacements.Last).To(HaveLen(3), "each mark counts")
		p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.Suspend = true })
		p.play(1)
		Expect(p.list()[1].Annotations).To(HaveKey(markKey), "suspended")
		p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) {
			s.Suspend, s.Timeout.Action, s.Timeout.Replace = false, v1alpha1.TimeoutActionKeep, nil
		})
		p.look(p.list()[1].Name)
		Expect(p.list()[1].Annotations).NotTo(HaveKey(markKey), "no longer replaced")
	})

	It("are marked again within the limits if a remediator removes the annotation", func(ctx context.Context) {
		p := newProvider(ctx, markKey, 1)
		p.keeps = true
		for range 8 {
			p.play(1)
			Expect(server.Client.Patch(ctx, &p.list()[0], client.RawPatch(types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, markKey)))).To(Succeed())
		}
		Expect(p.read().Status.Replacements.Last).To(HaveLen(3))
		Expect(p.condition()).To(HaveField("Reason", ReasonExhausted))
	})

	DescribeTable("keep a NodeClaim that is not theirs", func(ctx context.Context, change func(*provider), says string) {
		p := newProvider(ctx, "", 1)
		other := p.claim(p.pool + "-other")
		Expect(server.Client.Create(ctx, other)).To(Succeed())
		change(p)
		p.play(4)
		Expect(p.read().Status.Replacements).To(BeNil(), "no intention")
		Expect(p.condition()).To(HaveField("Reason", ReasonReplaceFailed))
		Expect(p.condition().Message).To(ContainSubstring(says))
		Expect(p.told(ReasonReplaceFailed)).To(Equal(1))
		Expect(server.Client.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
	},
		Entry("whose name they give", func(p *provider) {
			other := p.claim(p.pool + "-other")
			Expect(server.Client.Get(p.ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
			p.own(other.GetName(), other.GetUID())
		}, "not about this node"),
		Entry("where none is", func(p *provider) {
			p.own("", "")
			Expect(server.Client.Delete(p.ctx, p.claim(p.list()[0].Name))).To(Succeed())
			p.handed[p.list()[0].UID] = p.clock.Now()
		}, "0 NodeClaims are about node"),
	)
})

// own gives the first node another owner; without a name it has none.
func (p *provider) own(name string, uid types.UID) {
	GinkgoHelper()
	n := &p.list()[0]
	n.OwnerReferences = nil
	if name != "" {
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: name,
			UID: uid}}
	}
	Expect(server.Client.Update(p.ctx, n)).To(Succeed())
}

// runPods runs pods on the first node.
func (p *provider) runPods(pods ...*build.PodWrapper) {
	GinkgoHelper()
	for _, w := range pods {
		pod := w.Node(p.list()[0].Name).Obj()
		Expect(server.Client.Create(p.ctx, pod)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(server.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
		})
	}
}
