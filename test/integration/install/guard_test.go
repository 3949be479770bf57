// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/build"
)

// evictAfterAHold creates a rule that guards a lost node for one second, and waits until its pod is evicted.
func evictAfterAHold(t *testing.T, g *WithT) {
	t.Helper()
	ctx := t.Context()
	create(t, build.MakeNode("lost").Label("example.com/pool", "guarded").Condition("Ready", "Unknown", time.Now()).
		Taint(corev1.TaintNodeUnreachable, "", corev1.TaintEffectNoExecute).Obj())
	pod := build.MakePod("default", "guarded").Node("lost").Tolerate(corev1.TaintNodeUnreachable, 0).Obj()
	create(t, pod)
	rule := build.MakeRule("guard").Selector("example.com/pool", "guarded").Condition("Ready").EvictionGuard(1).
		Untainted().Obj()
	create(t, rule)
	g.Eventually(func(g Gomega) {
		g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.DeletionTimestamp).NotTo(BeNil())
		g.Expect(pod.Status.Conditions).To(ContainElement(And(
			HaveField("Type", corev1.DisruptionTarget), HaveField("Status", corev1.ConditionTrue),
			HaveField("Reason", "EvictionGuardEnded"))))
	}).Should(Succeed(), "the pod is evicted")
	deleteRule(ctx, g, rule)
}
