// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/suite"
)

var server *cluster.Cluster

func TestEviction(t *testing.T) {
	suite.Run(t, "Eviction controller")
}

var _ = BeforeSuite(func() { server = suite.Server() })

// world is a Reconciler on the real API server, called directly, with a clock that the test steps, and a node that is
// lost since the start and guarded for a minute.
type world struct {
	*Reconciler
	ctx      context.Context
	clock    *clocktesting.FakePassiveClock
	start    time.Time
	node     string
	deletes  []string
	bypassed []string
	// failing is what the next deletion fails with.
	failing error
	// refused is the pod that a policy keeps from being deleted, with refusal.
	refused  string
	refusal  error
	attempts int
	// looked, announcing and deleting, where set, run after the next read of the node past the cache, before the next
	// announcement of an eviction, and before the next deletion.
	looked, announcing, deleting func()
	// stale, where set, is the node as the cache still has it.
	stale *corev1.Node
	set   *ruleset.Set
}

// link is the rule that guards the node for a minute at most.
func (w *world) link() *build.RuleWrapper {
	return build.MakeRule("link").UID("u-link").Created(w.start.Add(-time.Hour)).Selector("kosmos.io/node", "true").
		Condition("Ready").EvictionGuard(60)
}

func (w *world) rules(rules ...*build.RuleWrapper) {
	w.set = ruleset.NewSet()
	for _, r := range rules {
		w.set = w.set.With(ruleset.Compile(r.Obj(), nil, w.start))
	}
}

// recorded writes the record of the guard: since the start, and ended at a second, or not with 0.
func (w *world) recorded(ended int) *corev1.Node {
	GinkgoHelper()
	record := nodeview.Record{GuardedSince: metav1.NewTime(w.start)}
	if ended > 0 {
		record.GuardEnded = metav1.NewTime(w.start.Add(time.Duration(ended) * time.Second))
	}
	node := get(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}})
	node = build.WrapNode(node).Annotation("nodegate.io/rule-u-link", record.Encode()).Obj()
	Expect(server.Client.Update(w.ctx, node)).To(Succeed())
	return node
}

var nodes atomic.Int32

func newWorld(ctx context.Context) *world {
	w := &world{ctx: ctx, node: fmt.Sprintf("n-%d", nodes.Add(1))}
	node := build.MakeNode(w.node).Label("kosmos.io/node", "true").Obj()
	Expect(server.Client.Create(ctx, node)).To(Succeed())
	w.start = node.CreationTimestamp.Time // a record from before it would not count
	w.clock = clocktesting.NewFakePassiveClock(w.start)
	w.rules(w.link())
	watched := interceptor.NewClient(server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
			opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.Pod); ok { // see config/components/webhooks/role.yaml
				return apierrors.NewForbidden(corev1.Resource("pods"), key.Name, errors.New("it may only list pods"))
			}
			err := c.Get(ctx, key, obj, opts...)
			if w.looked != nil {
				w.looked()
				w.looked = nil
			}
			return err
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if w.announcing != nil {
				w.announcing()
				w.announcing = nil
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := w.failing; err != nil {
				w.failing = nil
				return err
			}
			if obj.GetName() == w.refused {
				w.attempts++
				return w.refusal
			}
			if w.deleting != nil {
				w.deleting()
				w.deleting = nil
			}
			w.deletes = append(w.deletes, obj.GetName())
			return c.Delete(ctx, obj, opts...)
		},
	})
	cached := interceptor.NewClient(server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
			opts ...client.GetOption) error {
			if node, ok := obj.(*corev1.Node); ok && w.stale != nil {
				*node = *w.stale.DeepCopy()
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	w.refusal = apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("a policy refuses it"))
	w.Reconciler = &Reconciler{
		Nodes: cached, Live: watched, Rules: func() *ruleset.Set { return w.set }, Recorder: events.NewFakeRecorder(100),
		Clock:    w.clock,
		Bypassed: func(rule *ruleset.Rule, pod *corev1.Pod) { w.bypassed = append(w.bypassed, rule.Name+" "+pod.Name) },
	}
	taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute,
		TimeAdded: &metav1.Time{Time: w.start}}
	node.Spec.Taints = []corev1.Taint{taint}
	Expect(server.Client.Update(ctx, node)).To(Succeed())
	w.ready(corev1.ConditionUnknown)
	DeferCleanup(func(ctx context.Context) {
		Expect(server.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default"),
			client.GracePeriodSeconds(0))).To(Succeed())
		Expect(server.Client.Delete(ctx, node)).To(Succeed())
	})
	return w
}

// ready makes the node's kubelet say so.
func (w *world) ready(status corev1.ConditionStatus) {
	GinkgoHelper()
	node := get(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}})
	node = build.WrapNode(node).Condition("Ready", status, w.clock.Now()).Obj()
	Expect(server.Client.Status().Update(w.ctx, node)).To(Succeed())
}

// pod creates a pod on the node that tolerates its being lost for so many seconds. It runs there since the start,
// however long the API server needed until now.
func (w *world) pod(name string, seconds int64) *corev1.Pod {
	GinkgoHelper()
	p := build.MakePod("default", name).Node(w.node).Tolerate(corev1.TaintNodeUnreachable, seconds).Obj()
	Expect(server.Client.Create(w.ctx, p)).To(Succeed())
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(w.start)}}
	Expect(server.Client.Status().Update(w.ctx, p)).To(Succeed())
	return p
}

// get reads an object again.
func get[T client.Object](w *world, o T) T {
	GinkgoHelper()
	Expect(server.Client.Get(w.ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	return o
}

// refusals are the pods that are tried again later, after one more look.
func (w *world) refusals() map[types.UID]refusal {
	GinkgoHelper()
	Expect(server.Client.DeleteAllOf(w.ctx, &corev1.Pod{}, client.InNamespace("default"),
		client.GracePeriodSeconds(0))).To(Succeed())
	w.at(97)
	return w.Reconciler.refused.pods
}

// at looks at the node so many seconds after it was lost.
func (w *world) at(seconds int) reconcile.Result {
	GinkgoHelper()
	w.clock.SetTime(w.start.Add(time.Duration(seconds) * time.Second))
	result, err := w.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: w.node}})
	Expect(err).NotTo(HaveOccurred())
	return result
}

func withoutGuard(r *build.RuleWrapper) {
	r.Spec.EvictionGuard = nil
	r.Health("rules")
}

var _ = Describe("Finishing evictions", func() {
	It("evicts what is due when the hold has ended, once, and announces it", func(ctx context.Context) {
		w := newWorld(ctx)
		due, later, never := w.pod("due", 5), w.pod("later", 100), w.pod("never", -1)
		w.at(59)
		Expect(w.deletes).To(BeEmpty(), "the guard stands")
		Expect(w.at(61).RequeueAfter).To(Equal(44*time.Second), "five seconds after the other one is due")
		Expect(w.deletes).To(Equal([]string{"due"}))
		now := get(w, due)
		Expect(now.DeletionTimestamp).NotTo(BeNil())
		Expect(now.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.DisruptionTarget),
			HaveField("Status", corev1.ConditionTrue),
			HaveField("Reason", disruptionReason),
			HaveField("LastTransitionTime.Time", BeTemporally("==", w.start.Add(61*time.Second))))))
		w.at(62)
		Expect(w.deletes).To(Equal([]string{"due"}), "a pod that is terminating is left alone")
		w.at(120)
		Expect(w.deletes).To(Equal([]string{"due", "later"}))
		Expect(get(w, later).DeletionTimestamp).NotTo(BeNil())
		Expect(get(w, never).DeletionTimestamp).To(BeNil())
	})

	It("marks a pod not ready that was kept ready, before it evicts it", func(ctx context.Context) {
		w := newWorld(ctx)
		due, announced := w.pod("due", 5), w.pod("announced", 5) // and the deletion of this one was denied before
		for _, p := range []*corev1.Pod{due, announced} {
			p = get(w, p)
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
			status := corev1.ConditionFalse // as one that was taken back
			if p.Name == announced.Name {
				status = corev1.ConditionTrue
			}
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: status})
			Expect(server.Client.Status().Update(ctx, p)).To(Succeed())
		}
		marked := ContainElements(
			And(HaveField("Type", corev1.DisruptionTarget), HaveField("Status", corev1.ConditionTrue)),
			And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionFalse),
				HaveField("LastTransitionTime.Time", BeTemporally("==", w.start.Add(61*time.Second)))))
		w.deleting = func() { Expect(get(w, announced).Status.Conditions).To(marked) }
		w.at(61)
		Expect(w.deletes).To(Equal([]string{"announced", "due"}))
		Expect(get(w, due).Status.Conditions).To(marked)
	})

	It("goes on after a deletion that failed", func(ctx context.Context) {
		w := newWorld(ctx)
		due := w.pod("due", 5)
		w.clock.SetTime(w.start.Add(61 * time.Second))
		w.failing = fmt.Errorf("no answer")
		_, err := w.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: w.node}})
		Expect(err).To(MatchError(ContainSubstring("no answer")))
		Expect(get(w, due).DeletionTimestamp).To(BeNil())
		w.at(62)
		Expect(w.deletes).To(Equal([]string{"due"}))
	})

	It("evicts the other pods when one cannot be deleted, and tries that one less and less often",
		func(ctx context.Context) {
			w := newWorld(ctx)
			w.refused = "a-refused"
			w.pod("a-refused", 5)
			w.pod("b-due", 5)
			Expect(w.at(61).RequeueAfter).To(Equal(5 * time.Second))
			Expect(w.deletes).To(Equal([]string{"b-due"}))
			Expect(w.at(63).RequeueAfter).To(Equal(3 * time.Second))
			Expect(w.attempts).To(Equal(1))
			Expect(w.at(66).RequeueAfter).To(Equal(10 * time.Second))
			Expect(w.at(76).RequeueAfter).To(Equal(20 * time.Second))
			Expect(w.attempts).To(Equal(3))
			w.refused = ""
			w.at(96)
			Expect(w.deletes).To(Equal([]string{"b-due", "a-refused"}))
			Expect(w.refusals()).To(BeEmpty(), "what is gone is forgotten")
		})

	DescribeTable("leaves a pod alone that is created again under the same name", func(ctx context.Context,
		before func(*world) *func()) {
		w := newWorld(ctx)
		recorder := events.NewFakeRecorder(10)
		w.Recorder = recorder
		due := w.pod("due", 5)
		*before(w) = func() {
			Expect(server.Client.Delete(ctx, due, client.GracePeriodSeconds(0))).To(Succeed())
			due = w.pod("due", -1)
		}
		Expect(w.at(61)).To(BeZero(), "the former one is gone, and no API server refuses it")
		Expect(get(w, due).DeletionTimestamp).To(BeNil())
		Expect(due.Status.Conditions).NotTo(ContainElement(HaveField("Type", corev1.DisruptionTarget)))
		Expect(recorder.Events).To(BeEmpty())
	},
		Entry("before the announcement", func(w *world) *func() { return &w.announcing }),
		Entry("before the deletion", func(w *world) *func() { return &w.deleting }),
	)

	It("tries again when a webhook refuses a deletion as a conflict", func(ctx context.Context) {
		w := newWorld(ctx)
		w.refused = "a-refused"
		w.refusal = apierrors.NewConflict(corev1.Resource("pods"), w.refused, errors.New("a webhook refuses it"))
		w.pod("a-refused", 5)
		Expect(w.at(61).RequeueAfter).To(Equal(5 * time.Second))
	})

	It("evicts nothing from a node that is ready again, though the cache does not know yet", func(ctx context.Context) {
		w := newWorld(ctx)
		due := w.pod("due", 5)
		w.stale = w.recorded(0) // so that the guard outlasts recovery
		w.clock.SetTime(w.start.Add(60 * time.Second))
		w.ready(corev1.ConditionTrue)
		Expect(w.at(61).RequeueAfter).To(Equal(watchEvery), "the record may stay if the node is lost again at once")
		Expect(w.deletes).To(BeEmpty())
		Expect(get(w, due).DeletionTimestamp).To(BeNil())
	})

	It("evicts no further pod when the node is ready again after the first", func(ctx context.Context) {
		w := newWorld(ctx)
		w.pod("due-1", 5)
		w.pod("due-2", 5)
		w.recorded(60)
		w.deleting = func() { w.ready(corev1.ConditionTrue) }
		Expect(w.at(61).RequeueAfter).To(Equal(watchEvery), "the record may stay if the node is lost again at once")
		Expect(w.deletes).To(HaveLen(1))
	})

	DescribeTable("evicts nothing by what it knew before it was frozen, and the node became ready",
		func(ctx context.Context, at func(*world) *func(), deleted int) {
			w := newWorld(ctx)
			w.pod("due-1", 5)
			w.pod("due-2", 5)
			w.stale = w.recorded(60)
			*at(w) = func() {
				w.clock.SetTime(w.clock.Now().Add(time.Minute))
				w.ready(corev1.ConditionTrue)
			}
			Expect(w.at(61).RequeueAfter).To(BeNumerically("<", time.Second))
			Expect(w.deletes).To(HaveLen(deleted))
		},
		Entry("while it reads the node", func(w *world) *func() { return &w.looked }, 0),
		Entry("while it announces the first eviction", func(w *world) *func() { return &w.announcing }, 0),
		Entry("while it deletes the first pod", func(w *world) *func() { return &w.deleting }, 1),
	)

	DescribeTable("evicts what is due, and then says so, when the guard ends by", func(ctx context.Context,
		end func(*build.RuleWrapper)) {
		w := newWorld(ctx)
		var told []string
		w.Finished = func(node string) { told = append(told, node) }
		due, later := w.pod("due", 5), w.pod("later", 100)
		w.recorded(0)
		w.at(29)
		rule := w.link()
		end(rule)
		w.rules(rule)
		w.at(30)
		Expect(w.deletes).To(BeEmpty(), "the leader has not recorded the end")
		node := w.recorded(30)
		Expect(w.Evicted(node, w.set.All()[0])).To(BeFalse())
		w.at(31)
		Expect(w.deletes).To(Equal([]string{"due"}))
		Expect(get(w, due).DeletionTimestamp).NotTo(BeNil())
		Expect(get(w, later).DeletionTimestamp).To(BeNil(), "the node controller evicts it when it is due")
		Expect(w.Evicted(node, w.set.All()[0])).To(BeTrue())
		Expect(told).To(Equal([]string{w.node}))
		w.at(32)
		Expect(told).To(HaveLen(1))
	},
		Entry("the rule's deletion", func(r *build.RuleWrapper) { r.Deleted(time.Now()) }),
		Entry("dry-run", func(r *build.RuleWrapper) { r.DryRun(true) }),
		Entry("another selector", func(r *build.RuleWrapper) { r.Selector("kosmos.io/node", "false") }),
		Entry("an edit that removes it", withoutGuard),
	)

	It("waits for a pod that becomes due just after the end: a replica may have denied it", func(ctx context.Context) {
		w := newWorld(ctx)
		w.pod("due", 31)
		w.rules(w.link().Deleted(w.start), w.link().Named("earlier").UID("u-earlier").Deleted(w.start))
		earlier := nodeview.Record{GuardedSince: metav1.NewTime(w.start),
			GuardEnded: metav1.NewTime(w.start.Add(time.Second))}
		node := build.WrapNode(w.recorded(30)).Annotation("nodegate.io/rule-u-earlier", earlier.Encode()).Obj()
		Expect(server.Client.Update(ctx, node)).To(Succeed())
		Expect(w.at(30).RequeueAfter).To(Equal(6 * time.Second))
		Expect(w.Evicted(node, w.set.All()[0])).To(BeFalse())
		w.at(40)
		Expect(w.deletes).To(Equal([]string{"due"}))
		Expect(w.Evicted(node, w.set.All()[0])).To(BeTrue())
	})

	It("leaves a pod that becomes due after the override Release to the node controller", func(ctx context.Context) {
		w := newWorld(ctx) // the guard would last until second 60
		w.pod("due", 5)
		w.pod("later", 20)
		release := func(ended int) {
			node := build.WrapNode(w.recorded(ended)).Annotation(v1alpha1.OverrideAnnotation, "Release").Obj()
			Expect(server.Client.Update(ctx, node)).To(Succeed())
		}
		release(0)
		Expect(w.at(10).RequeueAfter).To(Equal(15*time.Second), "the leader has not recorded the end")
		release(10)
		w.at(21)
		Expect(w.deletes).To(Equal([]string{"due"}))
		w.at(25)
		Expect(w.deletes).To(Equal([]string{"due", "later"}))
	})

	It("counts a taint without timeAdded from the last change of the taints", func(ctx context.Context) {
		w := newWorld(ctx)
		p := get(w, w.pod("patient", -1))
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "example.com/maintenance",
			Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(3600))})
		Expect(server.Client.Update(ctx, p)).To(Succeed())
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.start.Add(-24 * time.Hour))
		Expect(server.Client.Status().Update(ctx, p)).To(Succeed())
		node := get(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}})
		node = build.WrapNode(node).Taint("example.com/maintenance", "", corev1.TaintEffectNoExecute).Obj()
		Expect(server.Client.Update(ctx, node)).To(Succeed())
		w.at(61)
		w.at(3590)
		Expect(w.deletes).To(BeEmpty())
		w.at(3700)
		Expect(w.deletes).To(Equal([]string{"patient"}))
	})

	DescribeTable("evicts a pod that the node controller has tried to evict",
		func(ctx context.Context, after time.Duration, want []string) {
			w := newWorld(ctx)
			w.rules(w.link().Deleted(w.start))
			node, tried := w.recorded(30), get(w, w.pod("tried", 100))
			due, _ := guard.Due(tried, node.Spec.Taints)
			tried.Status.Conditions = append(tried.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget,
				Status: corev1.ConditionTrue,
				Reason: "DeletionByTaintManager", LastTransitionTime: metav1.NewTime(due.Add(after))})
			Expect(server.Client.Status().Update(ctx, tried)).To(Succeed())
			w.at(31)
			Expect(w.deletes).To(Equal(want))
		},
		Entry("when it was due", time.Duration(0), []string{"tried"}),
		Entry("but not in an outage before", -10*time.Second, nil),
	)

	It("does not wait for a pod that cannot be deleted", func(ctx context.Context) {
		w := newWorld(ctx)
		w.refused = "a-refused"
		w.pod("a-refused", 5)
		w.pod("b-due", 5)
		w.rules(w.link().Deleted(w.start))
		node := w.recorded(30)
		w.at(31)
		Expect(w.deletes).To(Equal([]string{"b-due"}))
		Expect(w.Evicted(node, w.set.All()[0])).To(BeTrue())
	})

	It("leaves all pods to another rule that guards them", func(ctx context.Context) {
		w := newWorld(ctx)
		w.pod("due", 5)
		w.rules(w.link().Deleted(w.start), w.link().Named("longer").UID("u-longer").EvictionGuard(600))
		node := w.recorded(30)
		w.at(31)
		Expect(w.deletes).To(BeEmpty())
		Expect(w.Evicted(node, w.set.Named("link"))).To(BeTrue())
	})

	DescribeTable("evicts nothing for a suspended rule, whose guard has ended by", func(ctx context.Context,
		recorded int, end func(*build.RuleWrapper)) {
		w := newWorld(ctx)
		w.pod("due", 5)
		rule := w.link()
		end(rule)
		w.rules(rule.Suspend(true))
		w.recorded(recorded)
		Expect(w.at(300).RequeueAfter).To(Equal(watchEvery), "nothing else tells when the rule is resumed")
		Expect(w.deletes).To(BeEmpty())
		w.rules(rule.Suspend(false))
		w.at(301)
		Expect(w.deletes).To(Equal([]string{"due"}))
	},
		Entry("maxHoldSeconds", 0, func(*build.RuleWrapper) {}),
		Entry("an edit that removes it", 30, withoutGuard),
	)

	It("looks at a node again when the leader's rules are in force", func(ctx context.Context) {
		w := newWorld(ctx)
		w.pod("due", 5)
		w.set = nil
		Expect(w.at(61).RequeueAfter).To(Equal(beforeRules))
		w.rules(w.link())
		w.at(62)
		Expect(w.deletes).To(Equal([]string{"due"}))
	})

	It("is content with a node that is gone", func(ctx context.Context) {
		w := newWorld(ctx)
		w.node += "-gone"
		Expect(w.at(61)).To(BeZero())
	})
})

var _ = Describe("Watching guarded pods", func() {
	// The announcement is so long after the request to delete the pod: both times are the API server's.
	evict := func(ctx context.Context, w *world, p *corev1.Pod, after time.Duration) {
		GinkgoHelper()
		Expect(server.Client.Delete(ctx, p)).To(Succeed())
		p = get(w, p)
		announced := p.DeletionTimestamp.Add(after - time.Duration(*p.DeletionGracePeriodSeconds)*time.Second)
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget,
			Status: corev1.ConditionTrue,
			Reason: "DeletionByTaintManager", LastTransitionTime: metav1.NewTime(announced)})
		Expect(server.Client.Status().Update(ctx, p)).To(Succeed())
		Expect(w.at(30).RequeueAfter).To(Equal(watchEvery))
	}

	It("tells of one that was evicted anyway", func(ctx context.Context) {
		w := newWorld(ctx)
		evict(ctx, w, w.pod("bypassed", 5), time.Second)
		Expect(w.bypassed).To(Equal([]string{"link bypassed"}))
	})

	It("emits no event for one that a user deleted after its eviction was denied", func(ctx context.Context) {
		w := newWorld(ctx)
		evict(ctx, w, w.pod("deleted", 5), -time.Minute)
		Expect(w.bypassed).To(BeEmpty())
	})
})
