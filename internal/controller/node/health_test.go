// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/gate"
	"github.com/nodegate/nodegate/test/build"
)

var _ = Describe("A node under a rule with health", func() {
	var w *world
	BeforeEach(func(ctx context.Context) { w = newWorld(context.WithoutCancel(ctx)) })

	verdict := func(rule *v1alpha1.NodeReadinessRule) v1alpha1.HealthVerdict {
		GinkgoHelper()
		r := gate.Record{}
		Expect(json.Unmarshal([]byte(w.node("a").Annotations[v1alpha1.RecordAnnotationPrefix+string(rule.UID)]),
			&r)).To(Succeed())
		return r.Health
	}

	It("has the verdict, written with the taint and only when it changes; a heartbeat costs nothing", func() {
		rule := w.createRule(network().Health("rules"))
		w.createNode(build.MakeNode("a"))
		w.reconcile("a")
		Expect(w.held("a")).To(BeTrue())
		Expect(verdict(rule)).To(Equal(v1alpha1.HealthNotReady))
		Expect(w.requests.Load()).To(BeEquivalentTo(1))

		w.setCondition("a", corev1.ConditionTrue)
		w.reconcile("a")
		Expect(verdict(rule)).To(Equal(v1alpha1.HealthReady))
		Expect(w.requests.Load()).To(BeEquivalentTo(2), "one patch for both")

		w.step(time.Minute)
		beat := build.WrapNode(w.node("a")).Heartbeat(cni, w.clock.Now()).Obj()
		Expect(server.Client.Status().Update(w.ctx, beat)).To(Succeed())
		w.reconcile("a")
		Expect(w.requests.Load()).To(BeEquivalentTo(2))
		Expect(w.Fleet.HeartbeatDecides("a")).To(BeFalse(), "it is not even looked at")
	})

	It("is judged where the rule has nothing but that, within its limit", func() {
		rule := w.createRule(network().Untainted().Health("rules").MaxUnavailable("1"))
		w.createNode(build.MakeNode("a").Condition(cni, corev1.ConditionTrue, w.clock.Now()))
		w.createNode(build.MakeNode("b").Condition(cni, corev1.ConditionTrue, w.clock.Now()))
		w.reconcile("a")
		w.reconcile("b")
		Expect(verdict(rule)).To(Equal(v1alpha1.HealthReady))
		w.step(time.Minute)
		w.setCondition("b", corev1.ConditionFalse)
		w.reconcile("b")
		w.setCondition("a", corev1.ConditionFalse)
		w.reconcile("a")
		Expect(verdict(rule)).To(Equal(v1alpha1.HealthReady), "one node is out already")
		Expect(w.material(rule).Counts).To(Equal(v1alpha1.NodeCounts{Matched: 2, Held: 1, Exempt: 1}))
		Expect(w.node("b").Spec.Taints).To(BeEmpty())

		w.setCondition("b", corev1.ConditionTrue)
		w.reconcile("b")
		w.reconcile("a") // woken by the fleet
		Expect(verdict(rule)).To(Equal(v1alpha1.HealthNotReady))
		Expect(w.material(rule).Counts).To(Equal(v1alpha1.NodeCounts{Matched: 2, Ready: 1, Held: 1}))
	})

	It("is reported to the fleet where an older rule publishes the condition of a rule's probe", func() {
		older := network().Probe("example.com/Probed", 1)
		older.Name = "a-first" // of the same second, by name
		w.createRule(older)
		rule := w.createRule(network().Taint("example.com/other", "",
			corev1.TaintEffectNoSchedule).Probe("example.com/Probed", 2))
		w.createNode(build.MakeNode("a"))
		w.reconcile("a")
		Expect(w.material(rule)).To(WithTransform(func(m fleet.Material) string { return m.DisplacedBy },
			Equal("condition example.com/Probed is published by the older rule a-first")))
		Expect(w.material(rule).Displaced).To(Equal(1))
	})
})
