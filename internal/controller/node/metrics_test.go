// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/test/build"
)

var _ = Describe("Metrics", func() {
	const metered = "metered"
	count := func(c *prometheus.CounterVec, labels ...string) int {
		return int(testutil.ToFloat64(c.WithLabelValues(append([]string{metered}, labels...)...)))
	}

	It("has the labels and values of the incumbent", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.StateMetrics = true
		DeferCleanup(ForgetRule, metered)
		w.createRule(build.MakeRule(metered).Condition(cni).Taint(taintKey, "", corev1.TaintEffectNoSchedule))
		w.createNode(build.MakeNode("m1"))

		w.failing = errors.New("no")
		_, err := w.try("m1")
		Expect(err).To(HaveOccurred())
		Expect(count(failures, "AddTaintError")).To(Equal(1))
		w.failing = nil
		w.reconcile("m1")
		Expect(count(taintOperations, "add")).To(Equal(1))
		Expect(count(conditionFailures, cni)).To(Equal(2), "at each evaluation")

		w.setCondition("m1", corev1.ConditionTrue)
		w.failing = errors.New("no")
		_, err = w.try("m1")
		Expect(err).To(HaveOccurred())
		Expect(count(failures, "RemoveTaintError")).To(Equal(1))
		w.failing = nil
		w.reconcile("m1")
		Expect(count(taintOperations, "remove")).To(Equal(1))

		w.createNode(build.MakeNode("m2").Taint(taintKey, "", corev1.TaintEffectNoSchedule))
		w.reconcile("m2")
		Expect(count(adoptedTaints)).To(Equal(1))
		Expect(count(taintOperations, "add")).To(Equal(1), "an adopted taint is not added")
		all := prometheus.Labels{"rule": metered}
		Expect(taintOperations.DeletePartialMatch(all)).To(Equal(2), "no other operation is counted")
		Expect(failures.DeletePartialMatch(all)).To(Equal(2), "no other reason is counted")
		Expect(reconciliationLatency.DeleteLabelValues(metered, "add_taint")).To(BeTrue())
		Expect(reconciliationLatency.DeleteLabelValues(metered, "remove_taint")).To(BeTrue())
	})

	It("counts failed conditions only if asked to", func(ctx SpecContext) {
		w := newWorld(ctx)
		DeferCleanup(ForgetRule, metered)
		w.createRule(build.MakeRule(metered).Condition(cni).Taint(taintKey, "", corev1.TaintEffectNoSchedule))
		w.createNode(build.MakeNode("m1"))
		w.reconcile("m1")
		Expect(conditionFailures.DeletePartialMatch(prometheus.Labels{"rule": metered})).To(BeZero())
	})
})
