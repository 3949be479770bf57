// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/test/build"
)

var _ = Describe("Metrics", func() {
	const metered = "metered"
	count := func(c *prometheus.CounterVec, labels ...string) int {
		return int(testutil.ToFloat64(c.WithLabelValues(append([]string{metered}, labels...)...)))
	}

	It("has the names, labels, values and buckets of the incumbent", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.StateMetrics = true
		DeferCleanup(fleet.ForgetRule, metered)
		w.createRule(build.MakeRule(metered).Condition(cni).Taint(taintKey, "", corev1.TaintEffectNoSchedule).BootstrapOnly())
		fails := func(name string) {
			w.failing = errors.New("no")
			_, err := w.try(name)
			Expect(err).To(HaveOccurred())
			w.failing = nil
			w.step(time.Second)
			w.reconcile(name)
		}
		w.createNode(build.MakeNode("m1"))
		fails("m1")
		Expect(count(failures, "AddTaintError")).To(Equal(1))
		Expect(count(taintOperations, "add")).To(Equal(1))
		Expect(count(conditionFailures, cni)).To(Equal(2), "at each evaluation")

		w.setCondition("m1", corev1.ConditionTrue)
		fails("m1")
		Expect(count(failures, "RemoveTaintError")).To(Equal(1))
		Expect(count(taintOperations, "remove")).To(Equal(1))

		w.createNode(build.MakeNode("m2").Taint(taintKey, "", corev1.TaintEffectNoSchedule))
		fails("m2")
		Expect(count(failures, "EvaluationError")).To(Equal(1))
		Expect(count(adoptedTaints)).To(Equal(1))
		Expect(count(taintOperations, "add")).To(Equal(1), "an adopted taint is not added")

		Expect(shapes(metered)).To(ContainElements(
			"node_readiness_bootstrap_completed_total COUNTER {}",
			"node_readiness_bootstrap_duration_seconds HISTOGRAM {} [1 5 10 30 60 120 300 600 1200]",
			"node_readiness_condition_failures_total COUNTER {condition="+cni+"}",
			"node_readiness_evaluation_duration_seconds HISTOGRAM {} "+
				"[0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10]",
			"node_readiness_failures_total COUNTER {reason=AddTaintError} {reason=EvaluationError} {reason=RemoveTaintError}",
			"node_readiness_reconciliation_latency_seconds HISTOGRAM {operation=add_taint} {operation=remove_taint} "+
				"[0.01 0.05 0.1 0.5 1 2 5 10 30 60 120 300]",
			"node_readiness_taint_operations_total COUNTER {operation=add} {operation=remove}",
		))
	})

	It("counts failed conditions only if asked to", func(ctx SpecContext) {
		w := newWorld(ctx)
		DeferCleanup(fleet.ForgetRule, metered)
		w.createRule(build.MakeRule(metered).Condition(cni).Taint(taintKey, "", corev1.TaintEffectNoSchedule))
		w.createNode(build.MakeNode("m1"))
		w.reconcile("m1")
		Expect(conditionFailures.DeletePartialMatch(prometheus.Labels{"rule": metered})).To(BeZero())
	})
})

// shapes describes the metrics of a rule: name, type, the other labels of each series, and the buckets.
func shapes(rule string) (out []string) {
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		text, buckets := "", ""
		for _, m := range family.GetMetric() {
			var labels []string
			ours := false
			for _, l := range m.GetLabel() {
				if l.GetName() == "rule" {
					ours = l.GetValue() == rule
				} else {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			if !ours {
				continue
			}
			text += " {" + strings.Join(labels, " ") + "}"
			var bounds []float64
			for _, b := range m.GetHistogram().GetBucket() {
				bounds = append(bounds, b.GetUpperBound())
			}
			if len(bounds) > 0 {
				buckets = fmt.Sprint(" ", bounds)
			}
		}
		if text != "" {
			out = append(out, family.GetName()+" "+family.GetType().String()+text+buckets)
		}
	}
	return out
}
