// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/test/build"
)

// runPod stores a pod on a node.
func (w *world) runPod(node string, pod *build.PodWrapper) {
	GinkgoHelper()
	p := pod.Node(node).Obj()
	status := p.Status
	Expect(server.Client.Create(w.ctx, p)).To(Succeed())
	p.Status = status
	Expect(server.Client.Status().Update(w.ctx, p)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(server.Client.Delete(ctx, p, client.GracePeriodSeconds(0)))).To(Succeed())
	})
}

// TestPodsThatCannotBeListed: the node is reconciled again even if nothing else changes, and is not replaced for it.
func TestPodsThatCannotBeListed(t *testing.T) {
	rule := build.MakeRule("unlisted").RearmOnReboot().Replace(60, 20, "").Evidence(podsOf("x"))
	s := begins(t, rule)
	boots := func(id string) func(*build.NodeWrapper) {
		return func(w *build.NodeWrapper) { w.BootID(id).Condition("Ready", corev1.ConditionTrue, s.clock.Now()) }
	}
	s.at(0, boots("a"))
	s.at(10, boots("b"))
	for _, second := range []int{140, 900} { // only a list of pods decides from now on, by some clocks after ten minutes
		s.at(second, func(w *build.NodeWrapper) { w.Heartbeat("Ready", s.clock.Now()) })
		s.unlisted = apierrors.NewTooManyRequests("busy", 1)
		if result, err := s.r.Reconcile(t.Context(), request("n")); err != nil || result.RequeueAfter != podsRetry {
			t.Errorf("reconciled again after %s, %v", result.RequeueAfter, err)
		}
	}
	if s.r.Expired(t.Context(), s.node, s.rule) {
		t.Error("replaced for pods that are not known")
	}
	s.unlisted = nil
	if result, err := s.r.Reconcile(t.Context(), request("n")); err != nil || result.RequeueAfter != 0 {
		t.Errorf("listed, and reconciled again after %s, %v", result.RequeueAfter, err)
	}
	if !s.r.Expired(t.Context(), s.node, s.rule) {
		t.Error("not replaced, although its pod is missing")
	}
}

// TestAGuardBeginsOnceTheRecordHasTheReboot: nothing else may wake the node, and its pods would be evicted meanwhile.
func TestAGuardBeginsOnceTheRecordHasTheReboot(t *testing.T) {
	s := begins(t, build.MakeRule("rebooted").RearmOnReboot().EvictionGuard(600).Condition("Ready"))
	s.at(0, func(w *build.NodeWrapper) { w.BootID("a").Condition("Ready", corev1.ConditionTrue, s.clock.Now()) })
	s.clock.SetTime(s.begin.Add(time.Minute))
	s.node = build.WrapNode(s.node).BootID("b").Condition("Ready", corev1.ConditionFalse, s.clock.Now()).
		Taint(corev1.TaintNodeNotReady, "", corev1.TaintEffectNoExecute).Obj()
	for _, guards := range []bool{false, true} {
		result, err := s.r.Reconcile(t.Context(), request("n"))
		at := strings.Contains(s.node.Annotations[s.rule.RecordKey()], "guardedSince")
		if err != nil || at != guards || !guards && (result.RequeueAfter <= 0 || result.RequeueAfter > time.Second) {
			t.Errorf("guards is %t, reconciled again after %s, %v", at, result.RequeueAfter, err)
		}
	}
}

// TestAPodThatHasEndedDoesNotReleaseANode: the shutdown of the node ended it. Its annotation says that it was ready.
func TestAPodThatHasEndedDoesNotReleaseANode(t *testing.T) {
	for phase, released := range map[corev1.PodPhase]bool{corev1.PodRunning: true, corev1.PodFailed: false,
		corev1.PodSucceeded: false} {
		q := podsOf("x")
		q.Pods.ReadyWhen = v1alpha1.PodReadyPolicyAnnotation
		q.Pods.ReadyAnnotation = &v1alpha1.AnnotationMatch{Key: "example.com/ready", Value: "true"}
		s := begins(t, build.MakeRule("ended").RearmOnReboot().Evidence(q))
		s.at(0, func(w *build.NodeWrapper) { w.BootID("a").Condition("Ready", corev1.ConditionTrue, s.clock.Now()) })
		s.at(10, func(w *build.NodeWrapper) { w.BootID("b").Condition("Ready", corev1.ConditionTrue, s.clock.Now()) })
		s.at(900)
		s.pods = []corev1.Pod{*build.MakePod("kube-system", "x").Node("n").Phase(phase).
			Annotation("example.com/ready", "true").Obj()}
		_, err := s.r.Reconcile(t.Context(), request("n")) // once: then the cache decides, which has no pod here
		if err != nil || (len(s.node.Spec.Taints) == 0) != released {
			t.Errorf("%s: taints %v, %v", phase, s.node.Spec.Taints, err)
		}
	}
}

// TestANodeInServiceStaysSoWhileItsPodsCannotBeListed after a reboot that no operator has seen.
func TestANodeInServiceStaysSoWhileItsPodsCannotBeListed(t *testing.T) {
	none, agent := schema.GroupResource{}, build.MakeDaemonSet("kube-system", "agent").Tolerate("")
	busy := apierrors.NewTooManyRequests("busy", 1)
	for name, c := range map[string]struct {
		rule   *build.RuleWrapper
		effect corev1.TaintEffect
		why    error
	}{
		"pods": {build.MakeRule("pods").Evidence(podsOf("x")), corev1.TaintEffectNoExecute, busy},
		"forbidden": {build.MakeRule("forbidden").Evidence(podsOf("x")), corev1.TaintEffectNoExecute,
			apierrors.NewForbidden(none, "", nil)},
		"DaemonSets": {build.MakeRule("sets").DaemonSets("kube-system").MaxUnavailable("1").UnreadySeconds(500),
			corev1.TaintEffectNoSchedule, busy},
	} {
		s := begins(t, c.rule.RearmOnReboot())
		s.r.Evidence = sources.New(daemonSets{agent.Created(s.begin.Add(-time.Hour)).Obj()}, unheard{})
		s.edit(func(r *build.RuleWrapper) { r.Taint("example.com/t", "", c.effect) })
		s.node = build.WrapNode(s.node).BootID("a").Annotation(s.rule.RecordKey(),
			`{"rule":"r","released":"2026-01-02T03:04:30Z","bootID":"a"}`).Obj()
		reconciled := func(tainted bool, again time.Duration) {
			t.Helper()
			result, err := s.r.Reconcile(t.Context(), request("n"))
			if err != nil || (len(s.node.Spec.Taints) > 0) != tainted || result.RequeueAfter != again {
				t.Errorf("%s: taints %v, reconciled again after %s, %v", name, s.node.Spec.Taints, result.RequeueAfter, err)
			}
		}
		s.at(100, func(w *build.NodeWrapper) { w.BootID("b").Condition("Ready", corev1.ConditionTrue, s.clock.Now()) })
		s.unlisted = c.why
		s.at(900)
		reconciled(false, podsRetry)
		s.unlisted = nil
		if window := s.rule.Spec.UnreadyWindow(); window > 0 { // it begins now
			reconciled(false, window)
			s.at(900 + int(window/time.Second))
		}
		reconciled(true, 0)
		s.unlisted = c.why
		reconciled(true, podsRetry)
	}
}

// daemonSets are watches that have found a DaemonSet.
type daemonSets struct{ *appsv1.DaemonSet }

func (d daemonSets) Follow(_ context.Context, w *sources.Watch) sources.Informer {
	i := &slowInformer{synced: true}
	if _, ok := w.Object.(*appsv1.DaemonSet); ok {
		i.pods = []any{evidence.CompileDaemonSet(d.DaemonSet)}
	}
	return i
}

// TestPolicyClaimsOfWhatIsGoneAreForgotten: of deleted rules, and of a node that was created again under its name.
func TestPolicyClaimsOfWhatIsGoneAreForgotten(t *testing.T) {
	b := policyClaims{}
	for i := range 3 {
		n := build.MakeNode("n").UID("n1")
		rule := ruleset.Compile(network().UID(fmt.Sprint(i)).Obj(), nil, time.Unix(1e9, 0))
		set := ruleset.NewSet(rule)
		if !b.first(n.Obj(), rule, set) || b.first(n.Obj(), rule, set) {
			t.Errorf("the claim of rule %d does not count once", i)
		}
		if got := b.seen["n"].rules.UnsortedList(); len(got) != 1 {
			t.Errorf("claims of %v are remembered, of which one is left", got)
		}
		if again := n.UID("n2").Obj(); !b.first(again, rule, set) {
			t.Errorf("the claim of rule %d does not count on a new node", i)
		}
	}
	if b.forget("n"); len(b.seen) > 0 {
		t.Errorf("a deleted node is remembered: %v", b.seen)
	}
}

var _ = Describe("Pods on a node", func() {
	DescribeTable("existingNodes: Idle holds a node that was there before",
		func(ctx context.Context, held bool, pods ...*build.PodWrapper) {
			w := newWorld(ctx)
			node := w.createNode(build.MakeNode("idle-" + w.pool))
			rule := w.createRule(network().ExistingNodes(v1alpha1.ExistingNodesIdle))
			w.inForce(rule, node.CreationTimestamp.Add(10*time.Second))
			for _, p := range pods {
				w.runPod(node.Name, p)
			}
			w.reconcile(node.Name)
			Expect(w.held(node.Name)).To(Equal(held))
		},
		Entry("that is empty", true),
		Entry("with pods that are part of it, or of the system", true,
			build.MakeDaemonSet("default", "agent").Pod("x", time.Now()),
			build.MakePod("default", "static").Annotation(corev1.MirrorPodAnnotationKey, "x"),
			build.MakePod("kube-system", "dns"), build.MakePod("kube-public", "info")),
		Entry("not one with a pod of a user", false, build.MakePod("default", "app")),
		Entry("one on which a user's pod has ended", true, build.MakePod("default", "job").Phase(corev1.PodSucceeded)),
	)

	It("that were there before the gate are counted, once", func(ctx context.Context) {
		w := newWorld(ctx)
		w.Escapes = NewEscapes(server.Client, func() bool { return true })
		rule := w.createRule(network())
		node := w.createNode(build.MakeNode("late-"+w.pool).Condition(cni, corev1.ConditionFalse, w.clock.Now()))
		w.runPod(node.Name, build.MakePod("default", "escaped"))
		w.runPod(node.Name, build.MakeDaemonSet("default", "agent").Pod("x", time.Now()))
		tolerant := build.MakePod("default", "tolerant")
		tolerant.Spec.Tolerations = []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpExists}}
		w.runPod(node.Name, tolerant)
		running, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = w.Escapes.Start(running)
		}()
		DeferCleanup(func() { stop(); <-ended })
		counted := func() float64 { return testutil.ToFloat64(escapedPods.WithLabelValues(rule.Name)) }
		before := counted()
		w.reconcile(node.Name)
		Expect(w.held(node.Name)).To(BeTrue())
		Eventually(counted).WithTimeout(time.Minute).Should(Equal(before + 1))

		By("not counting a node again that was in service")
		w.setCondition(node.Name, corev1.ConditionTrue)
		w.reconcile(node.Name)
		w.step(time.Minute)
		w.setCondition(node.Name, corev1.ConditionFalse)
		w.reconcile(node.Name)
		Expect(w.held(node.Name)).To(BeTrue())
		Expect(w.Escapes.queue).To(BeEmpty())
		Expect(counted()).To(Equal(before + 1))
	})

	It("born by the admission policy are counted, once", func(ctx context.Context) {
		w := newWorld(ctx)
		claims := 0
		w.PolicyClaim = func() { claims++ }
		rule := w.createRule(network())
		claim := func(extra string) string {
			return `{"rule":"network","taint":"` + taintKey + `=pending:NoSchedule"` + extra + `}`
		}
		key := v1alpha1.RecordAnnotationPrefix + string(rule.UID)
		born := w.createNode(build.MakeNode("born-"+w.pool).Taint(taintKey, "pending",
			corev1.TaintEffectNoSchedule).Annotation(key, claim("")))
		webhook := w.createNode(build.MakeNode("hooked-"+w.pool).Taint(taintKey, "pending", corev1.TaintEffectNoSchedule).
			Annotation(key, claim(`,"since":"`+w.clock.Now().UTC().Format(time.RFC3339)+`"`)))
		for range 2 {
			w.reconcile(born.Name)
			w.reconcile(webhook.Name)
		}
		Expect(claims).To(Equal(1))
		Expect(w.requests.Load()).To(BeZero(), "a node that was tainted at creation needs no write until it is ready")
	})
})
