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
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/api/v1alpha1"
	nodecontroller "github.com/nodegate/nodegate/internal/controller/node"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

const (
	markKey = "example.com/replace"
	// step is a little more than the time between two searches.
	step = replaceInterval + time.Second
)

var errKilled = errors.New("the operator is killed")

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
	// killAt is the write of the rule's controller at which the operator is killed, before or after it; 0: it is not.
	killAt, writes int
	after, dead    bool
	// unreadable: pods cannot be listed.
	unreadable bool
}

var providers atomic.Int32

// newProvider makes a rule that replaces nodes, by the annotation, or without a key by the NodeClaim, and its nodes.
func newProvider(ctx context.Context, key string, perHour int32, nodes int) *provider {
	p := &provider{ctx: ctx, pool: fmt.Sprintf("provider-%d", providers.Add(1)), handed: map[types.UID]time.Time{},
		clock: clocktesting.NewFakePassiveClock(time.Now().Add(time.Second))}
	p.rule = network().Named(p.pool).Selector("pool", p.pool).Replace(1, perHour, key).Obj()
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
	p.dead, p.events, p.compiled = false, events.NewFakeRecorder(1000), nil
	f := fleet.New(deaf{})
	p.nodes = &nodecontroller.Reconciler{Client: server.Client, Live: server.Client, Fleet: f,
		Evidence: evidence.New(nil, nil), Recorder: p.events, Clock: p.clock}
	c := interceptor.NewClient(server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			return p.alive(func() error { return c.Get(ctx, k, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, pods := l.(*corev1.PodList); pods && p.unreadable {
				return errors.New("pods cannot be listed")
			}
			return p.alive(func() error { return c.List(ctx, l, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			return p.write(func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return p.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			opts ...client.SubResourceUpdateOption) error {
			return p.write(func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
	})
	p.rules = &Reconciler{Client: c, Live: c, Fleet: f, Recorder: p.events, Clock: p.clock, Expired: p.nodes.Expired}
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

func (p *provider) alive(do func() error) error {
	if p.dead {
		return errKilled
	}
	return do()
}

func (p *provider) write(do func() error) error {
	if p.dead {
		return errKilled
	}
	p.writes++
	if p.writes != p.killAt {
		return do()
	}
	p.dead = true
	if p.after {
		_ = do()
	}
	return errKilled
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
		if p.dead {
			p.start()
		} else {
			Expect(err).NotTo(HaveOccurred())
		}
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

func (p *provider) annotate(key, value string) {
	GinkgoHelper()
	for _, n := range p.list() {
		Expect(server.Client.Patch(p.ctx, &n, client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, value)))).To(Succeed())
	}
}

// told counts events of a reason.
func (p *provider) told(reason string) (n int) {
	for {
		select {
		case e := <-p.events.Events:
			if strings.Contains(e, reason) {
				n++
			}
		default:
			return n
		}
	}
}

func (p *provider) condition() *metav1.Condition {
	return meta.FindStatusCondition(p.read().Status.Conditions, v1alpha1.ConditionReplacing)
}

var _ = Describe("Nodes that never become ready", func() {
	BeforeEach(func(ctx context.Context) {
		Expect(server.InstallPinnedCRD(ctx, "sigs.k8s.io/karpenter", "pkg/apis/crds/karpenter.sh_nodeclaims.yaml")).
			To(Succeed())
	})

	// By the annotation, moments alternate: test/e2e/kill kills the operator before and after each of these writes.
	DescribeTable("three are handed over, wherever the operator is killed, and then it stops", func(ctx context.Context,
		key string) {
		for at, killed := 1, true; killed; at++ {
			moments := []bool{false, true}
			if key == markKey {
				moments = []bool{at%2 == 0}
			}
			for _, after := range moments {
				p := newProvider(ctx, key, 20, 2)
				p.killAt, p.after = at, after
				p.play(9)
				Expect(p.handed).To(HaveLen(3), "killed at write %d, after it: %t", at, after)
				Expect(p.read().Status.Replacements.Last).To(HaveLen(3))
				Expect(p.condition()).To(HaveField("Reason", ReasonExhausted))
				killed = p.writes >= at
			}
			Expect(killed || at > 9).To(BeTrue(), "there are only %d writes at which the operator could be killed", at-1)
		}
	}, Entry("by the annotation", markKey), Entry("by the NodeClaim", ""))

	It("one in an hour is handed over, wherever the operator is killed", func(ctx context.Context) {
		for at := 1; at < 12; at++ {
			p := newProvider(ctx, markKey, 1, 4)
			p.killAt, p.after = at, at%2 == 0
			p.play(5)
			Expect(p.handed).To(HaveLen(1), "killed at write %d", at)
			for hour := 1; hour < 4; hour++ {
				p.clock.SetTime(p.clock.Now().Add(time.Hour - 5*step - time.Second))
				p.play(1)
				Expect(p.handed).To(HaveLen(min(hour, 3)), "a second before hour %d, killed at write %d", hour, at)
				p.play(4)
				Expect(p.handed).To(HaveLen(min(hour+1, 3)), "after hour %d, killed at write %d", hour, at)
			}
		}
	})

	It("tells once that it has stopped; a node that becomes ready lets it go on, and so does an edit", func(
		ctx context.Context) {
		p := newProvider(ctx, markKey, 20, 2)
		p.play(9)
		Expect(p.handed).To(HaveLen(3))
		Expect(p.told(ReasonExhausted)).To(Equal(1))
		exhausted := func() float64 { return testutil.ToFloat64(replacementsExhausted.WithLabelValues(p.pool)) }
		Expect(exhausted()).To(BeEquivalentTo(1))
		p.ready(0)
		p.play(6)
		Expect(p.handed).To(HaveLen(6), "after a node became ready")
		Expect(p.read().Status.Replacements.ReadyAt).NotTo(BeNil())
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
		Expect(replacementsExhausted.DeleteLabelValues(p.pool)).To(BeFalse(), "the rule replaces no nodes")
	})

	DescribeTable("are not handed over", func(ctx context.Context, prevent, allow func(*provider)) {
		p := newProvider(ctx, markKey, 20, 1)
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
		Entry("while a pod of a user runs there", func(p *provider) { p.runPod("app") }, func(p *provider) {
			Expect(server.Client.DeleteAllOf(p.ctx, &corev1.Pod{}, client.InNamespace("default"),
				client.GracePeriodSeconds(0))).To(Succeed())
		}),
		Entry("while pods cannot be listed", func(p *provider) { p.unreadable = true },
			func(p *provider) { p.unreadable = false }),
		Entry("in maintenance", func(p *provider) { p.annotate(v1alpha1.MaintenanceAnnotation, `"disk"`) },
			func(p *provider) { p.annotate(v1alpha1.MaintenanceAnnotation, "null") }),
		Entry("under an override", func(p *provider) { p.annotate(v1alpha1.OverrideAnnotation, `"Hold"`) }, nil),
		Entry("in dry-run", func(p *provider) { p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.DryRun = true }) }, nil),
		Entry("by a suspended rule", func(p *provider) {
			p.play(1)
			p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.Suspend = true })
		}, func(p *provider) { p.edit(func(s *v1alpha1.NodeReadinessRuleSpec) { s.Suspend = false }) }),
		Entry("by a leader that does not know the newest rule", func(p *provider) {
			p.play(1)
			p.stale()
		}, (*provider).start),
		Entry("that was written since the cache has seen it", func(p *provider) {
			p.play(1)
			p.staleNode()
		}, (*provider).start),
	)

	It("are kept if the evidence came after the node was last looked at", func(ctx context.Context) {
		p := newProvider(ctx, markKey, 20, 1)
		p.play(1)
		p.look(p.list()[0].Name)
		p.ready(0)
		_, err := p.rules.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p.rule)})
		Expect(err).NotTo(HaveOccurred())
		Expect(p.list()[0].Annotations).NotTo(HaveKey(markKey))
		Expect(p.read().Status.Replacements).To(BeNil(), "no intention")
	})

	It("are handed over although pods of DaemonSets and static pods run there", func(ctx context.Context) {
		p := newProvider(ctx, markKey, 20, 1)
		p.runPod("agent", func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds", UID: "ds",
				Controller: new(true)}}
		})
		p.runPod("static", func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		})
		p.play(3)
		Expect(p.handed).NotTo(BeEmpty())
	})

	It("lose the annotation when they are released after all, or are in maintenance", func(ctx context.Context) {
		p := newProvider(ctx, markKey, 20, 2)
		p.keeps = true
		p.play(4)
		Expect(p.handed).To(HaveLen(2))
		p.ready(0)
		p.play(1)
		Expect(p.list()[0].Annotations).NotTo(HaveKey(markKey))
		Expect(p.list()[1].Annotations).To(HaveKey(markKey))
		p.annotate(v1alpha1.MaintenanceAnnotation, `"disk"`)
		p.play(1)
		Expect(p.list()[1].Annotations).NotTo(HaveKey(markKey))
		p.annotate(v1alpha1.MaintenanceAnnotation, "null")
		p.play(1)
		Expect(p.list()[1].Annotations).To(HaveKey(markKey))
		Expect(p.read().Status.Replacements.Last).To(HaveLen(2), "each counts once")
	})

	DescribeTable("keep a NodeClaim that is not theirs", func(ctx context.Context, change func(*provider), says string) {
		p := newProvider(ctx, "", 20, 1)
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
		Entry("which was created again", func(p *provider) { p.own(p.list()[0].Name, "former") }, "not about this node"),
		Entry("where none is", func(p *provider) {
			p.own("", "")
			Expect(server.Client.Delete(p.ctx, p.claim(p.list()[0].Name))).To(Succeed())
			p.handed[p.list()[0].UID] = p.clock.Now()
		}, "0 NodeClaims are about node"),
	)

	It("are found by the NodeClaim that names them, if they name none", func(ctx context.Context) {
		p := newProvider(ctx, "", 20, 1)
		p.own("", "")
		p.play(3)
		Expect(p.handed).NotTo(BeEmpty())
	})
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

// runPod runs a pod on the first node.
func (p *provider) runPod(name string, edits ...func(*corev1.Pod)) {
	GinkgoHelper()
	on := p.list()[0].Name
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-" + on}}
	pod.Spec = corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/c:1"}}}
	for _, edit := range edits {
		edit(pod)
	}
	Expect(server.Client.Create(p.ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(server.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
	})
}

// stale lets the rule's controller read the rule as it is now from then on, while another leader writes it.
func (p *provider) stale() {
	GinkgoHelper()
	old := p.read().DeepCopy()
	p.reads(func(o client.Object) bool {
		rule, ok := o.(*v1alpha1.NodeReadinessRule)
		if ok {
			old.DeepCopyInto(rule)
		}
		return ok
	})
	p.annotateRule()
}

// staleNode lets the rule's controller read the first node as it is now from then on, while another client writes it.
func (p *provider) staleNode() {
	GinkgoHelper()
	old := p.list()[0]
	p.reads(func(o client.Object) bool {
		node, ok := o.(*corev1.Node)
		if ok {
			old.DeepCopyInto(node)
		}
		return ok
	})
	p.annotate("example.com/written", `"now"`)
}

// reads lets the rule's controller read what fill fills in, and everything else from the API server.
func (p *provider) reads(fill func(client.Object) bool) {
	p.rules.Client = interceptor.NewClient(server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if fill(o) {
				return nil
			}
			return c.Get(ctx, k, o, opts...)
		},
	})
}

// annotateRule writes the rule as another client.
func (p *provider) annotateRule() {
	GinkgoHelper()
	p.read().Annotations = map[string]string{"example.com/written": "now"}
	Expect(server.Client.Update(p.ctx, p.rule)).To(Succeed())
}
