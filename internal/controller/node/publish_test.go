// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/test/build"
)

const verdictType = "example.com/Verdict"

var _ = Describe("A rule that publishes a condition", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(context.WithoutCancel(ctx)) })

	published := func(name string) string {
		for _, c := range w.node(name).Status.Conditions {
			if c.Type == verdictType {
				return string(c.Status) + " " + c.Reason
			}
		}
		return ""
	}

	It("counts a status that no condition has as Unknown, wherever it writes it", func() {
		rule := w.createRule(network().Publish(verdictType))
		w.createNode(build.MakeNode("odd").Condition(cni, "true", w.clock.Now()))
		w.reconcile("odd")
		Expect(published("odd")).To(Equal("Unknown NodegateRuleEvidenceMissing"), "a remediator must not act on a typo")
		m := w.material(rule)
		Expect(server.Client.Get(w.ctx, client.ObjectKeyFromObject(rule), rule)).To(Succeed())
		rule.Status.NodeEvaluations = m.Evaluations
		Expect(server.Client.Status().Update(w.ctx, rule)).To(Succeed(), "one node must not make the rule's status invalid")

		forged := build.WrapNode(w.node("odd")).Condition(verdictType, "\xffFalse", w.clock.Now()).
			Reason(verdictType, "NodegateRuleForged", "").Obj()
		d := &state.Decision{Rule: w.Fleet.Rules().Rule(rule.UID)}
		Expect(publishedStatus(d, forged)).To(Equal(corev1.ConditionUnknown), "it becomes a label of a metric")
	})

	It("does not become False because a node is released by hand that its limit keeps free of the taint", func() {
		rule := w.createRule(network().Publish(verdictType).MaxUnavailable("1"))
		w.createNode(build.MakeNode("a"))
		w.createNode(build.MakeNode("b"))
		w.step(time.Minute)
		w.inForce(rule, w.clock.Now()) // both were there before
		w.setCondition("b", corev1.ConditionFalse)
		w.step(time.Minute)
		w.reconcile("a") // without evidence
		Expect(w.held("a")).To(BeTrue())
		verdict := func() string {
			w.reconcile("b")
			return published("b")
		}
		Expect(verdict()).To(Equal("Unknown NodegateRuleOverBudget"))
		w.update("b", func(n *corev1.Node) { n.Annotations[v1alpha1.OverrideAnnotation] = "Release" })
		Expect(verdict()).To(Equal("Unknown NodegateRuleOverBudget"))
		w.setCondition("a", corev1.ConditionTrue)
		w.reconcile("a")
		Expect(w.held("a")).To(BeFalse())
		Expect(verdict()).To(Equal("False NodegateRuleNotReady"), "the limit has room")
	})

	It("stays False under a younger rule only as far as the limit of that rule has room", func() {
		old := w.createRule(network().Publish(verdictType))
		nodes := []string{"a", "b", "c"}
		for _, name := range nodes {
			w.createNode(build.MakeNode(name).Condition(cni, corev1.ConditionFalse, w.clock.Now()))
			w.reconcile(name)
			Expect(published(name)).To(Equal("False NodegateRuleNotReady"))
		}
		w.step(time.Second)
		w.createRule(build.MakeRule("younger").Condition(cni).Publish(verdictType).MaxUnavailable("2"))
		Expect(server.Client.Get(w.ctx, client.ObjectKeyFromObject(old), old)).To(Succeed())
		old.Spec.Suspend = true
		Expect(server.Client.Update(w.ctx, old)).To(Succeed())
		w.rules()
		all := func() (out []string) {
			for _, name := range nodes {
				w.reconcile(name)
				out = append(out, published(name))
			}
			return out
		}
		some := []string{"False NodegateRuleNotReady", "False NodegateRuleNotReady", "Unknown NodegateRuleOverBudget"}
		Expect(all()).To(Equal(some))
		w.requests.Store(0)
		Expect(all()).To(Equal(some), "the limit counts what the rule itself has made False")
		w.restart()
		w.rules()
		Expect(all()).To(Equal(some), "also after a restart")
		Expect(w.requests.Load()).To(BeZero())
	})

	It("keeps it on each node, with one patch for all rules after that of the taint, and only when it changes", func() {
		rule := w.createRule(network().Publish(verdictType))
		w.createRule(build.MakeRule("second").Condition(cni).Publish("example.com/Second"))
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionFalse, w.clock.Now()))
		w.failing = errors.New("killed")
		_, err := w.try("a")
		Expect(err).To(HaveOccurred())
		Expect(w.requests.Swap(0)).To(BeEquivalentTo(1), "the taint comes first")
		w.failing = nil
		w.step(time.Second)
		w.reconcile("a")
		Expect(w.held("a")).To(BeTrue())
		Expect(published("a")).To(Equal("False NodegateRuleNotReady"))
		Expect(w.requests.Load()).To(BeEquivalentTo(2))

		w.reconcile("a")
		w.setCondition("a", corev1.ConditionTrue)
		w.reconcile("a")
		Expect(published("a")).To(Equal("True NodegateRuleReady"))
		Expect(w.requests.Load()).To(BeEquivalentTo(4))
		Expect(w.material(rule).Counts.Ready).To(BeEquivalentTo(1))

		w.step(time.Minute)
		beat := build.WrapNode(w.node("a")).Heartbeat(cni, w.clock.Now()).Obj()
		Expect(server.Client.Status().Update(w.ctx, beat)).To(Succeed())
		w.reconcile("a")
		Expect(w.requests.Load()).To(BeEquivalentTo(4))
	})

	It("is not published by rules that have changed while the taint was written", func() {
		rule := w.createRule(network().Publish(verdictType))
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionFalse, w.clock.Now()))
		w.between = func() {
			Expect(server.Client.Get(w.ctx, client.ObjectKeyFromObject(rule), rule)).To(Succeed())
			rule.Spec.Suspend = true
			Expect(server.Client.Update(w.ctx, rule)).To(Succeed())
			w.rules()
		}
		w.reconcile("a")
		Expect(w.held("a")).To(BeTrue())
		Expect(published("a")).To(BeEmpty(), "the rule is suspended by now")
	})

	It("is swept, as the taint is, from a node of a rule that was deleted while the operator was down", func() {
		rule := w.createRule(network().Publish(verdictType))
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionFalse, w.clock.Now()))
		w.reconcile("a")
		Expect(w.held("a")).To(BeTrue())
		Expect(server.Client.Delete(w.ctx, rule)).To(Succeed())
		w.restart()
		w.rules()
		w.reconcile("a")
		Expect(w.taintKeys("a")).To(BeEmpty())
		Expect(published("a")).To(BeEmpty())
		w.reconcile("a")
		Expect(w.node("a").Annotations).To(BeEmpty())
	})

	It("does not touch a condition of another controller, and says so", func() {
		rule := w.createRule(network().Publish(verdictType))
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionFalse, w.clock.Now()).
			Condition(verdictType, corev1.ConditionTrue, w.clock.Now()).Reason(verdictType, "Fine", ""))
		w.reconcile("a")
		Expect(published("a")).To(Equal("True Fine"))
		Expect(w.held("a")).To(BeTrue())
		Expect(w.material(rule).DisplacedBy).To(ContainSubstring(`another controller, with reason "Fine"`))
	})

	DescribeTable("does not overwrite what another controller reports meanwhile", func(before func() *func()) {
		w.createRule(network().Publish(verdictType))
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionFalse, w.clock.Now()))
		*before() = func() {
			Expect(server.Client.Status().Update(w.ctx, build.WrapNode(w.node("a")).
				Condition(verdictType, corev1.ConditionTrue, w.clock.Now()).Reason(verdictType, "Fine", "").Obj())).To(Succeed())
		}
		Expect(w.reconcile("a").RequeueAfter).To(Equal(conflictDelay))
		w.reconcile("a")
		Expect(published("a")).To(Equal("True Fine"))
	},
		Entry("before the patch of the taints", func() *func() { return &w.between }),
		Entry("before the patch of the conditions", func() *func() { return &w.reported }))

	It("holds and releases nodes where the permission to publish is missing, and reports that", func() {
		rule := w.createRule(network().Publish(verdictType))
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionFalse, w.clock.Now()))
		w.unpublishable = errors.New("nodes is forbidden")
		_, err := w.try("a")
		Expect(err).To(MatchError(ContainSubstring("forbidden")))
		Expect(w.held("a")).To(BeTrue())
		m := w.material(rule)
		Expect([]int32{m.Counts.Held, m.Counts.Failed}).To(Equal([]int32{1, 0}))
		Expect(m.Unpublished).To(Equal(1))
		Expect(m.PublishProblem).To(ContainSubstring("nodes is forbidden"))
		w.unpublishable = nil
		w.step(time.Second)
		w.reconcile("a")
		Expect(w.material(rule).PublishProblem).To(BeEmpty())
	})

	It("keeps the delay of a retry while the limit refuses it", func() {
		w.createRule(build.MakeRule("verdict").Condition(cni).Publish(verdictType).MaxUnavailable("1"))
		for _, name := range []string{"a", "b"} { // new nodes: only the condition is limited
			w.createNode(build.MakeNode(name).Condition(cni, corev1.ConditionFalse, w.clock.Now()))
			w.reconcile(name)
		}
		Expect(published("a")).To(HavePrefix("False "))
		Expect(published("b")).To(HavePrefix("Unknown "))
		w.setCondition("a", corev1.ConditionTrue)
		w.reconcile("a")
		w.unpublishable = apierrors.NewForbidden(corev1.Resource("nodes"), "b", errors.New("a policy"))
		_, err := w.try("b")
		Expect(err).To(HaveOccurred())
		Expect(w.retries.nodes).To(HaveKey("b"))
		w.unpublishable = nil
		w.setCondition("a", corev1.ConditionFalse)
		w.reconcile("a")
		Expect(published("a")).To(HavePrefix("False "))
		w.reconcile("b")
		Expect(w.retries.nodes).To(HaveKey("b"))
	})

	It("says that it could not hold a node by its verdict alone", func() {
		rule := build.MakeRule("verdict").Condition(cni).Publish(verdictType)
		created := w.createRule(rule)
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionFalse, w.clock.Now()))
		w.unpublishable = errors.New("nodes is forbidden")
		_, err := w.try("a")
		Expect(err).To(MatchError(ContainSubstring("forbidden")))
		Expect(w.material(created).Failed).To(HaveLen(1))
		Expect(w.material(created).Failed[0].Reason).To(Equal("PublishFailed"))
	})

	It("does what the example says", func() {
		raw, err := os.ReadFile("../../../examples/published-condition/rule.yaml")
		Expect(err).NotTo(HaveOccurred())
		example := &v1alpha1.NodeReadinessRule{}
		Expect(yaml.UnmarshalStrict(raw, example)).To(Succeed())
		example.Spec.NodeSelector.MatchLabels = nil
		w.createRule(build.WrapRule(example))
		calico := func(n *build.NodeWrapper, status corev1.ConditionStatus) *build.NodeWrapper {
			return n.Condition("projectcalico.org/CalicoReady", status, w.clock.Now())
		}
		network := func() (status corev1.ConditionStatus) {
			for _, c := range w.node("a").Status.Conditions {
				if c.Type == "example.com/NetworkReady" {
					status = c.Status
				}
			}
			return status
		}
		w.createNode(calico(build.MakeNode("a"), corev1.ConditionTrue))
		w.step(30 * time.Second)
		w.reconcile("a")
		Expect(network()).To(Equal(corev1.ConditionTrue))
		Expect(server.Client.Status().Update(w.ctx,
			calico(build.WrapNode(w.node("a")), corev1.ConditionFalse).Obj())).To(Succeed())
		w.reconcile("a")
		Expect(network()).To(Equal(corev1.ConditionTrue), "for unreadySeconds")
		w.step(121 * time.Second)
		w.reconcile("a")
		Expect(network()).To(Equal(corev1.ConditionFalse))
		w.step(15 * time.Minute)
		w.reconcile("a")
		Expect(network()).To(Equal(corev1.ConditionUnknown), "the reporter is silent")
	})
})
