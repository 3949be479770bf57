// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// evictAfterAHold creates a rule that guards a lost node for one second, and waits until its pod is evicted.
func evictAfterAHold(t *testing.T, g *WithT) {
	t.Helper()
	ctx := t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost",
		Labels: map[string]string{"example.com/pool": "guarded"}}}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	g.Expect(kube.Create(ctx, node)).To(Succeed())
	now := metav1.Now()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
		LastHeartbeatTime: now, LastTransitionTime: now}}
	g.Expect(kube.Status().Update(ctx, node)).To(Succeed())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "guarded", Namespace: metav1.NamespaceDefault}}
	pod.Spec = corev1.PodSpec{NodeName: node.Name,
		Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/c:1"}}}
	pod.Spec.Tolerations = []corev1.Toleration{{ // or it is given one for five minutes
		Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(0))}}
	g.Expect(kube.Create(ctx, pod)).To(Succeed())
	rule := &v1alpha1.NodeReadinessRule{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: v1alpha1.NodeReadinessRuleSpec{
			NodeSelector:  v1alpha1.NodeSelector{MatchLabels: map[string]v1alpha1.LabelValue{"example.com/pool": "guarded"}},
			Conditions:    []v1alpha1.ConditionRequirement{{Type: "Ready", RequiredStatus: v1alpha1.ConditionTrue}},
			EvictionGuard: &v1alpha1.EvictionGuard{MaxHoldSeconds: new(int32(1))},
		},
	}
	g.Expect(kube.Create(ctx, rule)).To(Succeed())
	t.Cleanup(func() {
		_ = kube.Delete(context.Background(), rule)
		_ = kube.Delete(context.Background(), pod, client.GracePeriodSeconds(0))
		_ = kube.Delete(context.Background(), node)
	})
	g.Eventually(func(g Gomega) {
		g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.DeletionTimestamp).NotTo(BeNil())
		g.Expect(pod.Status.Conditions).To(ContainElement(And(
			HaveField("Type", corev1.DisruptionTarget), HaveField("Status", corev1.ConditionTrue),
			HaveField("Reason", "EvictionGuardEnded"))))
	}).Should(Succeed(), "the pod is evicted")
	deleteRule(ctx, g, rule)
}
