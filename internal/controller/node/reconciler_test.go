// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

var _ = Describe("A node under a rule", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(context.WithoutCancel(ctx)) })

	It("is held until its evidence holds, and a second look sends nothing", func() {
		rule := w.createRule(network())
		node := w.createNode(build.MakeNode("a"))
		w.reconcile("a")
		Expect(w.node("a").Spec.Taints).To(Equal([]corev1.Taint{{Key: taintKey, Value: "pending",
			Effect: corev1.TaintEffectNoSchedule}}))
		Expect(w.node("a").Annotations).To(HaveKey(v1alpha1.RecordAnnotationPrefix + string(rule.UID)))
		Expect(w.events()).To(ConsistOf(ContainSubstring("TaintAdded")))

		sent := w.requests.Load()
		w.reconcile("a")
		Expect(w.requests.Load()).To(Equal(sent))

		w.setCondition(node.Name, corev1.ConditionTrue)
		w.reconcile("a")
		Expect(w.node("a").Spec.Taints).To(BeEmpty())
		Expect(w.requests.Load()).To(Equal(sent + 1))
		Expect(w.events()).To(ConsistOf(ContainSubstring("TaintRemoved")))
		Expect(w.material(rule).Counts).To(Equal(v1alpha1.NodeCounts{Matched: 1, Ready: 1}))
	})

	It("counts among those that a dry-run would hold, once the dry-run has removed the taint", func() {
		rule := w.createRule(network())
		w.createNode(build.MakeNode("a"))
		w.reconcile("a")
		rule.Spec.DryRun = true
		Expect(server.Client.Update(w.ctx, rule)).To(Succeed())
		w.rules()
		Expect(w.reconcile("a").RequeueAfter).To(BeNumerically(">", 0), "no other event follows")
		Expect(w.held("a")).To(BeFalse())
		w.reconcile("a")
		Expect(w.material(rule).ToTaint).To(Equal(1))
	})

	It("keeps the taint that a record of an unknown rule names, if any account may have written that record", func() {
		w.createNode(build.MakeNode("a").Taint("example.com/theirs", "", corev1.TaintEffectNoSchedule).
			Annotation("nodegate.io/rule-unknown", `{"taint":"example.com/theirs=:NoSchedule"}`))
		w.rules()
		w.UnprotectedRecords = true
		w.reconcile("a")
		Expect(w.taintKeys("a")).To(Equal([]string{"example.com/theirs"}))
		Expect(w.node("a").Annotations).To(BeEmpty())
		Expect(w.events()).To(ConsistOf(And(ContainSubstring("TaintLeft"),
			ContainSubstring("example.com/theirs:NoSchedule-"))))
	})

	It("is not said to have a taint left that another rule claims", func() {
		w.createRule(network())
		w.UnprotectedRecords = true
		w.createNode(build.MakeNode("a"))
		w.reconcile("a")
		Expect(w.events()).To(ConsistOf(ContainSubstring("TaintAdded")))
		n := w.node("a")
		n.Annotations["nodegate.io/rule-unknown"] = `{"rule":"x","taint":"` + taintKey + `=:NoSchedule","own":true}`
		Expect(server.Client.Update(w.ctx, n)).To(Succeed())
		w.reconcile("a")
		Expect(w.node("a").Annotations).NotTo(HaveKey("nodegate.io/rule-unknown"))
		Expect(w.events()).NotTo(ContainElement(ContainSubstring("TaintLeft")))
	})

	It("keeps a taint that its kubelet has registered with the record of a rule that never was", func() {
		w.createNode(build.MakeNode("a").Taint("dedicated", "", corev1.TaintEffectNoSchedule).
			Annotation("nodegate.io/rule-unknown", `{"rule":"x","taint":"dedicated=:NoSchedule"}`))
		w.rules()
		w.reconcile("a")
		Expect(w.taintKeys("a")).To(Equal([]string{"dedicated"}))
		Expect(w.node("a").Annotations).To(BeEmpty())
		Expect(w.events()).To(ConsistOf(And(ContainSubstring("TaintLeft"), ContainSubstring("dedicated:NoSchedule-"))))
	})

	It("keeps a taint that its kubelet has registered with the record of a rule that never had it", func() {
		rule := w.createRule(network())
		w.createNode(build.MakeNode("a").Taint("dedicated", "", corev1.TaintEffectNoSchedule).
			Condition(cni, corev1.ConditionTrue, w.clock.Now()).
			Annotation(v1alpha1.RecordAnnotationPrefix+string(rule.UID), `{"rule":"x","taint":"dedicated=:NoSchedule"}`))
		w.reconcile("a")
		Expect(w.taintKeys("a")).To(Equal([]string{"dedicated"}))
		Expect(w.events()).To(ContainElement(And(ContainSubstring("TaintLeft"), ContainSubstring("dedicated:NoSchedule-"))))
	})

	It("is held by a claim of admission that is newer than the cache of the rules", func() {
		rule := w.createRule(network())
		rule.Spec.Taint.Key = "readiness.k8s.io/new"
		Expect(server.Client.Update(w.ctx, rule)).To(Succeed())
		w.createNode(build.MakeNode("a").Taint("readiness.k8s.io/new", "", corev1.TaintEffectNoSchedule).
			Annotation(v1alpha1.RecordAnnotationPrefix+string(rule.UID),
				`{"rule":"x","taint":"readiness.k8s.io/new=:NoSchedule"}`))
		w.reconcile("a")
		Expect(w.events()).NotTo(ContainElement(ContainSubstring("TaintLeft")))
	})

	It("keeps a taint that the admission policy found and claimed for a rule with a forbidden key", func() {
		rule := w.createRule(network())
		w.createNode(build.MakeNode("a").Taint(taintKey, "", corev1.TaintEffectNoSchedule).
			Annotation(v1alpha1.RecordAnnotationPrefix+string(rule.UID), `{"rule":"x","taint":"`+taintKey+`=:NoSchedule"}`))
		w.KeyPrefixes = []string{"example.org/"}
		forbidden := w.Fleet.Rules().Resolve(ruleset.Known{KeyPrefixes: w.KeyPrefixes}, ruleset.NewSet())
		Expect(forbidden.Rule(rule.UID).Mode).To(Equal(ruleset.Frozen))
		w.Fleet.SetRules(forbidden, nil, w.clock.Now())
		w.reconcile("a")
		Expect(w.node("a").Annotations).NotTo(BeEmpty(), "nothing is changed for a frozen rule")
		rule.DeletionTimestamp = new(metav1.NewTime(w.clock.Now()))
		w.Fleet.SetRules(ruleset.NewSet(ruleset.Compile(rule, nil, w.clock.Now())), nil, w.clock.Now())
		w.reconcile("a")
		Expect(w.node("a").Annotations).To(BeEmpty())
		Expect(w.events()).To(ConsistOf(And(ContainSubstring("TaintLeft"), ContainSubstring(taintKey+":NoSchedule-"))))
		Expect(w.taintKeys("a")).To(Equal([]string{taintKey}))
	})

	It("is tainted although its annotations are full", func() {
		rule := w.createRule(network())
		w.createNode(build.MakeNode("a").Annotation("example.com/filler",
			strings.Repeat("x", 256<<10-len("example.com/filler"))))
		w.reconcile("a")
		Expect(w.taintKeys("a")).To(Equal([]string{taintKey}))
		Expect(w.events()).To(ConsistOf(ContainSubstring("TaintAdded"), ContainSubstring("AnnotationsFull")))
		Expect(w.material(rule).Warning).To(Equal(fleet.AnnotationsFull))
		w.reconcile("a")
		Expect(w.events()).To(BeEmpty(), "nothing is written")
	})

	It("is in service, and has no room for a record: the limit holds another node", func() {
		for _, name := range []string{"a", "b"} {
			w.createNode(build.MakeNode(name).Condition(cni, corev1.ConditionTrue, w.clock.Now()))
		}
		w.update("a", func(n *corev1.Node) {
			n.Annotations = map[string]string{"example.com/filler": strings.Repeat("x", 256<<10-len("example.com/filler"))}
		})
		rule := w.createRule(network().MaxUnavailable("1"))
		w.inForce(rule, w.clock.Now())
		w.step(time.Second)
		w.reconcile("a")
		w.reconcile("b")
		w.setCondition("a", corev1.ConditionFalse)
		w.reconcile("a")
		Expect(w.taintKeys("a")).To(BeEmpty(), "the limit would not count it")
		Expect(w.material(rule).Warning).To(Equal(fleet.AnnotationsFull))
		Expect(w.material(rule).Evaluations[0].Reason).To(Equal(state.ReasonFull))
		w.setCondition("b", corev1.ConditionFalse)
		w.reconcile("b")
		Expect(w.held("b")).To(BeTrue())
	})

	It("is looked at again to the second when a deadline passes", func() {
		w.createRule(build.MakeRule("fresh").FreshCondition(cni, 60).Taint(taintKey, "", corev1.TaintEffectNoSchedule))
		w.clock.SetTime(w.clock.Now().Truncate(time.Second))
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionTrue, w.clock.Now()))
		w.step(10 * time.Second)
		Expect(w.reconcile("a").RequeueAfter).To(Equal(50 * time.Second))
		w.step(49 * time.Second)
		Expect(w.reconcile("a").RequeueAfter).To(Equal(time.Second))
		Expect(w.held("a")).To(BeFalse())
		w.step(time.Second)
		w.reconcile("a")
		Expect(w.held("a")).To(BeTrue())
		Expect(w.Fleet.HeartbeatCounts("a")).To(BeTrue(), "the evidence is stale")
	})

	It("is not fresh for as long as its clock is ahead", func() {
		w.createRule(build.MakeRule("fresh").FreshCondition(cni, 60).Taint(taintKey, "", corev1.TaintEffectNoSchedule))
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionTrue, w.clock.Now()).
			Heartbeat(cni, w.clock.Now().Add(time.Hour)))
		w.reconcile("a")
		Expect(w.held("a")).To(BeFalse())
		w.step(time.Minute)
		w.reconcile("a")
		Expect(w.held("a")).To(BeTrue())
	})

	It("follows the override, and says that it cannot read one", func() {
		w.createRule(network())
		w.createNode(build.MakeNode("a").Annotation(v1alpha1.OverrideAnnotation, "Release"))
		w.reconcile("a")
		Expect(w.held("a")).To(BeFalse())
		w.update("a", func(n *corev1.Node) { n.Annotations[v1alpha1.OverrideAnnotation] = "Open sesame" })
		w.reconcile("a")
		Expect(w.held("a")).To(BeTrue())
		Expect(w.events()).To(ContainElement(And(ContainSubstring("InvalidOverride"),
			ContainSubstring("must be Release or Hold"))))
	})

	It("says in the status what is missing, and sees what an expression and a resource are about change", func() {
		rule := w.createRule(build.MakeRule("gpu").Taint(taintKey, "", corev1.TaintEffectNoSchedule).
			Evidence(v1alpha1.Requirement{Name: "it",
				Resource: &v1alpha1.ResourceRequirement{Name: "example.com/gpu", Min: resource.MustParse("2")}}))
		before := w.createNode(build.MakeNode("a"))
		w.reconcile("a")
		Expect(w.material(rule).Evaluations[0].RequirementResults).To(Equal([]v1alpha1.RequirementEvaluationResult{
			{Name: "it", Message: "resource example.com/gpu: none is allocatable, must be at least 2"}}))

		after := w.node("a")
		after.Status.Allocatable = corev1.ResourceList{"example.com/gpu": resource.MustParse("2")}
		after.Status.Capacity = after.Status.Allocatable
		Expect(server.Client.Status().Update(w.ctx, after)).To(Succeed())
		Expect(w.Fleet.Rules().Inspects()).To(BeTrue())
		Expect(inspectedChanged(before, after)).To(BeTrue())
		Expect(inspectedChanged(after, after.DeepCopy())).To(BeFalse())
		w.reconcile("a")
		Expect(w.taintKeys("a")).To(BeEmpty())
	})

	It("is forgotten when it is gone, also if it is deleted before the patch arrives", func() {
		rule := w.createRule(network())
		node := w.createNode(build.MakeNode("a"))
		w.reconcile("a")
		Expect(server.Client.Delete(w.ctx, node)).To(Succeed())
		w.reconcile("a")
		Expect(w.material(rule).Counts.Matched).To(BeZero())

		w.createNode(build.MakeNode("a"))
		w.between = func() { Expect(server.Client.Delete(w.ctx, w.node("a"))).To(Succeed()) }
		w.reconcile("a")
		Expect(w.material(rule).Counts.Matched).To(BeZero())
	})
})

var _ = Describe("A write that meets another", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(context.WithoutCancel(ctx)) })

	It("loses no other client's taint, and is retried", func() {
		w.createRule(network())
		n := build.MakeNode("a")
		for i := range 20 {
			n.Taint(fmt.Sprintf("example.com/foreign-%02d", i), "", corev1.TaintEffectNoSchedule)
		}
		w.createNode(n)
		w.between = func() {
			w.update("a", func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints[1:], corev1.Taint{Key: "example.com/late",
					Effect: corev1.TaintEffectNoSchedule})
			})
		}
		Expect(w.reconcile("a").RequeueAfter).To(BeNumerically(">", 0))
		Expect(w.held("a")).To(BeFalse())
		w.reconcile("a")
		keys := w.taintKeys("a")
		Expect(keys).To(HaveLen(21))
		Expect(keys[0]).To(Equal("example.com/foreign-01"))
		Expect(keys[19:]).To(Equal([]string{"example.com/late", taintKey}))
	})

	It("is undone if its rule was deleted while the write was under way", func() {
		rule := w.createRule(network())
		w.createNode(build.MakeNode("a"))
		w.between = func() {
			Expect(server.Client.Delete(w.ctx, rule)).To(Succeed())
			w.rules()
		}
		Expect(w.reconcile("a").RequeueAfter).To(Equal(rulesDelay), "and not a patch for each rule that changes")
		Expect(w.held("a")).To(BeTrue())
		Expect(w.reconcile("a").RequeueAfter).To(BeZero())
		Expect(w.node("a").Spec.Taints).To(BeEmpty())
	})

	It("is a failure if no other client has written", func() {
		rule := w.createRule(network().Taint("readiness.example.com/refused", "", corev1.TaintEffectNoSchedule))
		w.createNode(build.MakeNode("a"))
		w.failing = invalid("a")
		_, err := w.try("a")
		Expect(err).To(MatchError(ContainSubstring("refused, although no other client has changed it")))
		m := w.material(rule)
		Expect(m.Counts).To(Equal(v1alpha1.NodeCounts{Matched: 1, Failed: 1}))
		Expect(m.Failed).To(HaveLen(1))
		Expect(m.Failed[0].Reason).To(Equal("PatchRefused"))
		Expect(w.events()).To(BeEmpty(), "events tell of what has been written")

		w.failing = nil
		w.step(time.Second)
		w.reconcile("a")
		Expect(w.material(rule).Counts).To(Equal(v1alpha1.NodeCounts{Matched: 1, Held: 1}))
	})

	It("is tried again later and later while it is refused, however often the node is looked at", func() {
		rule := w.createRule(network())
		w.createNode(build.MakeNode("a"))
		w.failing = apierrors.NewForbidden(corev1.Resource("nodes"), "a", errors.New("a policy"))
		for range 600 {
			_, err := w.try("a")
			Expect(err).To(MatchError(ContainSubstring("a policy")))
			w.step(time.Second)
		}
		Expect(w.requests.Load()).To(BeNumerically("<", 20))
		Expect(w.material(rule).Failed).To(HaveLen(1))

		tried := w.requests.Load()
		w.setCondition("a", corev1.ConditionTrue)
		_, err := w.try("a")
		Expect(err).To(HaveOccurred())
		Expect(w.requests.Load()).To(Equal(tried+1), "what it needs now is another write")
	})

	It("is repeated later and later if another client undoes it each time", func() {
		rule := w.createRule(network())
		w.createNode(build.MakeNode("a"))
		undo := func() {
			w.update("a", func(n *corev1.Node) { n.Spec.Taints = nil })
			w.reconcile("a")
		}
		w.reconcile("a")
		undo()
		Expect(w.held("a")).To(BeTrue(), "a user has removed the taint, and it is back at once")
		for range 60 {
			w.step(100 * time.Millisecond)
			if w.held("a") {
				undo()
			} else {
				w.reconcile("a")
			}
		}
		Expect(w.requests.Load()).To(BeNumerically("<", 10), "in six seconds")
		undo()
		m := w.material(rule)
		Expect(m.Failed).To(HaveLen(1))
		Expect(m.Failed[0].Reason).To(Equal("WriteUndone"))
		w.step(lastUndone)
		w.reconcile("a")
		Expect(w.held("a")).To(BeTrue())
		Expect(w.material(rule).Counts).To(Equal(v1alpha1.NodeCounts{Matched: 1, Held: 1}))

		w.update("a", func(n *corev1.Node) { n.Spec.Taints = nil })
		w.setCondition("a", corev1.ConditionTrue)
		w.reconcile("a")
		w.setCondition("a", corev1.ConditionFalse)
		w.step(2*lastUndone + writeLasts)
		undo()
		Expect(w.held("a")).To(BeTrue(), "at once, since the last write has lasted")
	})

	It("is not delayed by the writes of a deleted node with the same name", func() {
		w.createRule(network())
		node := w.createNode(build.MakeNode("a"))
		replaced := func() {
			Expect(server.Client.Delete(w.ctx, node)).To(Succeed())
			node = w.createNode(build.MakeNode("a"))
			w.reconcile("a")
			Expect(w.held("a")).To(BeTrue())
		}
		w.failing = apierrors.NewForbidden(corev1.Resource("nodes"), "a", errors.New("a policy"))
		for range 100 {
			_, err := w.try("a")
			Expect(err).To(HaveOccurred())
			w.step(time.Second)
		}
		w.failing = nil
		replaced()
		for range 2 { // another client undoes the writes
			w.update("a", func(n *corev1.Node) { n.Spec.Taints = nil })
			w.reconcile("a")
		}
		Expect(w.held("a")).To(BeFalse())
		replaced()
	})

	It("finds out later that a patch was carried out whose answer was lost", func() {
		rule := w.createRule(network().MaxUnavailable("1"))
		w.createNode(build.MakeNode("a"))
		w.createNode(build.MakeNode("b"))
		w.inForce(rule, w.clock.Now().Add(evidence.MaxClockSkew)) // both were there before
		w.failing, w.lost = errors.New("connection reset by peer"), true
		_, err := w.try("a")
		Expect(err).To(HaveOccurred())
		w.failing = nil
		w.reconcile("b")
		Expect(w.held("b")).To(BeFalse(), "the room that a's patch took, which may have been carried out, is not given away")
		w.step(time.Second)
		w.reconcile("a")
		Expect(w.held("a")).To(BeTrue())
	})

	It("uses no turn of a rate if the node is deleted before", func() {
		rule := w.createRule(network().Rate(1, 600))
		w.createNode(build.MakeNode("a"))
		w.createNode(build.MakeNode("b"))
		w.inForce(rule, w.clock.Now().Add(evidence.MaxClockSkew)) // both were there before
		w.reconcile("a")
		w.reconcile("b")
		inForce := w.Fleet.Rules().Rule(rule.UID)
		order, _ := w.Fleet.Order(inForce, nil)
		w.Fleet.Issue(inForce, &order)
		w.between = func() { Expect(server.Client.Delete(w.ctx, w.node("a"))).To(Succeed()) }
		w.reconcile("a")
		Expect(w.material(rule).Counts.Matched).To(BeEquivalentTo(1))
		w.reconcile("b")
		Expect(w.held("b")).To(BeTrue())
	})
})

var _ = Describe("The heartbeat filter", func() {
	It("lets through what a verdict may depend on, and nothing else", func() {
		now := time.Now()
		base := build.MakeNode("a").Label("x", "1").Annotation("theirs", "1").Taint("t", "", corev1.TaintEffectNoSchedule).
			BootID("b").Condition(cni, corev1.ConditionTrue, now).Condition("published", corev1.ConditionUnknown, now).
			Reason("published", "NodegateRuleBooting", "")
		for name, tc := range map[string]struct {
			after *build.NodeWrapper
			want  bool
		}{
			"nothing":             {build.WrapNode(base.Obj()), false},
			"a heartbeat":         {build.WrapNode(base.Obj()).Heartbeat(cni, now.Add(time.Minute)), false},
			"an older heartbeat":  {build.WrapNode(base.Obj()).Heartbeat(cni, now.Add(-time.Minute)), true},
			"their annotation":    {build.WrapNode(base.Obj()).Annotation("theirs", "2"), false},
			"our annotation":      {build.WrapNode(base.Obj()).Annotation(v1alpha1.RecordAnnotationPrefix+"u", "{}"), true},
			"the override":        {build.WrapNode(base.Obj()).Annotation(v1alpha1.OverrideAnnotation, "Hold"), true},
			"maintenance":         {build.WrapNode(base.Obj()).Annotation(v1alpha1.MaintenanceAnnotation, "disk"), true},
			"a label":             {build.WrapNode(base.Obj()).Label("x", "2"), true},
			"a taint":             {build.WrapNode(base.Obj()).Untaint("t"), true},
			"a status":            {build.WrapNode(base.Obj()).Condition(cni, corev1.ConditionFalse, now), true},
			"a transition":        {build.WrapNode(base.Obj()).Condition(cni, corev1.ConditionTrue, now.Add(time.Second)), true},
			"another condition":   {build.WrapNode(base.Obj()).Condition("other", corev1.ConditionTrue, now), true},
			"another reason":      {build.WrapNode(base.Obj()).Reason(cni, "Fine", ""), false},
			"a reason of ours":    {build.WrapNode(base.Obj()).Reason(cni, "NodegateRuleReady", ""), true},
			"a rule knows more":   {build.WrapNode(base.Obj()).Reason("published", "NodegateRuleOverBudget", ""), true},
			"a lost condition":    {build.WrapNode(base.Obj()).Without(cni), true},
			"a reboot":            {build.WrapNode(base.Obj()).BootID("c"), true},
			"a cordon":            {build.WrapNode(base.Obj()).Cordoned(), true},
			"another incarnation": {build.WrapNode(base.Obj()).UID("2"), true},
			"its deletion":        {build.WrapNode(base.Obj()).Terminating(now), true},
		} {
			after := tc.after.Obj()
			after.ResourceVersion = "2"
			r := &Reconciler{Fleet: fleet.New(&world{}, time.Now)}
			filter := func() bool {
				return r.Relevant().Update(event.TypedUpdateEvent[*corev1.Node]{ObjectOld: base.Obj(), ObjectNew: after})
			}
			Expect(filter()).To(Equal(tc.want), name)
			r.ownWrites.expect(after)
			Expect(filter()).To(Equal(tc.want && name != "our annotation" && name != "a taint"),
				"%s, in what this controller has written", name)
		}
	})

	It("keeps of a cached node nothing that no verdict looks at", func() {
		node := build.MakeNode("a").Obj()
		node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
		node.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
		stripped, err := Strip(node)
		Expect(err).NotTo(HaveOccurred())
		Expect(stripped).To(Equal(build.MakeNode("a").Obj()))
	})
})

var _ = Describe("A sweep over a fleet", func() {
	It("asks the API server once which rules are gone", func(ctx context.Context) {
		rule := newWorld(ctx).createRule(network())
		lists := 0
		live := interceptor.NewClient(server.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				lists++
				return c.List(ctx, list, opts...)
			},
		})
		var s deletedRules
		const unknown = "00000000-0000-0000-0000-000000000001"
		missing, err := s.among(ctx, live, []string{unknown, string(rule.UID)}, time.Unix(1, 0))
		Expect(err).NotTo(HaveOccurred())
		gone := func(ref string) bool { _, is := missing(ref); return is }
		Expect(gone(unknown)).To(BeTrue())
		Expect(gone(string(rule.UID))).To(BeFalse(), "the cache may not have seen it yet")
		Expect(gone("00000000-0000-0000-0000-000000000002")).To(BeFalse(), "it was not looked up")
		missing, err = s.among(ctx, live, []string{unknown}, time.Unix(2, 0))
		Expect(err).NotTo(HaveOccurred())
		since, _ := missing(unknown)
		Expect(since).To(Equal(time.Unix(1, 0)))
		Expect(lists).To(Equal(1))
	})

	It("knows the taint of a rule that was deleted while admission went on with it", func() {
		r := &Reconciler{Clock: clocktesting.NewFakePassiveClock(time.Now())}
		node, taint := build.MakeNode("n").Created(time.Now()).Obj(), &corev1.Taint{Key: "k", Effect: "NoSchedule"}
		Expect(r.deleted.known(node, "u", taint)).To(BeFalse())
		r.ObserveListed(&admissionv1alpha1.AdmissionRules{Groups: []admissionv1alpha1.RuleGroup{
			{Selector: []admissionv1alpha1.Requirement{{Key: "k", Operator: "Exists"}},
				Rules: []string{"u,2026-01-01T00:00:00Z,r,k,,NoSchedule"}}}})
		Expect(r.deleted.known(node, "u", taint)).To(BeTrue())
		Expect(r.deleted.known(node, "u", &corev1.Taint{Key: "other", Effect: "NoSchedule"})).To(BeFalse())
	})
})
