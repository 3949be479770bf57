// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

var _ = Describe("cleanup", func() {
	const group = "--api-group=readiness.node.x-k8s.io" // no installation tells it
	// claimed creates a node that a rule holds, and that has an unrelated taint.
	claimed := func(ctx context.Context, name, uid string) *corev1.Node {
		taint := "readiness.k8s.io/" + name
		return create(ctx, build.MakeNode(name).Label("test", name).
			Taint(taint, "pending", corev1.TaintEffectNoSchedule).Taint("example.com/foreign", "", corev1.TaintEffectNoSchedule).
			Annotation(v1alpha1.RecordAnnotationPrefix+uid, fmt.Sprintf(
				`{"rule":%q,"taint":"%s=pending:NoSchedule","published":"example.com/Verdict"}`, name, taint)).
			Condition("example.com/Verdict", corev1.ConditionTrue, time.Now()).
			Reason("example.com/Verdict", "NodegateRuleReady", "").
			Annotation(v1alpha1.Served().MarkerPrefix+uid, fmt.Sprintf(`{"rule-name":%q}`, name)).Obj())
	}
	keys := func(n *corev1.Node) []string {
		var out []string
		for _, t := range n.Spec.Taints {
			if t.Key != corev1.TaintNodeNotReady { // the server's own
				out = append(out, t.Key)
			}
		}
		return out
	}
	ruleWithFinalizer := func(ctx context.Context, name string) *v1alpha1.NodeReadinessRule {
		rule := network(name, name).Obj()
		rule.Finalizers = []string{v1alpha1.Served().Finalizer}
		create(ctx, rule)
		DeferCleanup(func(ctx context.Context) {
			if err := server.Client.Get(ctx, keyOf(name), rule); err == nil {
				rule.Finalizers = nil
				Expect(server.Client.Update(ctx, rule)).To(Succeed())
			}
		})
		return rule
	}

	It("clears what deleted rules and rules that are gone have left, and nothing else", func(ctx context.Context) {
		deleted, kept := ruleWithFinalizer(ctx, "deleted"), ruleWithFinalizer(ctx, "kept")
		ended := create(ctx, build.MakeNode("ended").Annotation(v1alpha1.OverrideAnnotation,
			"Hold;until=2026-01-02T15:00:30Z").Obj())
		onDeleted, onKept, onGone := claimed(ctx, "deleted", string(deleted.UID)), claimed(ctx, "kept",
			string(kept.UID)), claimed(ctx, "gone", "0-0-0")
		onKept = build.WrapNode(onKept).Annotation(v1alpha1.OverrideAnnotation, "Release").Obj() // no operator acts on it
		Expect(server.Client.Update(ctx, onKept)).To(Succeed())
		Expect(server.Client.Delete(ctx, deleted)).To(Succeed())
		listed := &admissionv1alpha1.AdmissionRules{ObjectMeta: metav1.ObjectMeta{Name: admissionv1alpha1.Name},
			Groups: []admissionv1alpha1.RuleGroup{{Selector: []admissionv1alpha1.Requirement{{Key: "k", Operator: "Exists"}},
				Rules: []string{string(deleted.UID) + ",2026-01-01T00:00:00Z,deleted,k,,NoSchedule"}}}}
		Expect(server.Client.Create(ctx, listed)).To(Succeed())

		code, out, err := nodegate(ctx, "cleanup", "--dry-run=server")
		Expect(code).To(Equal(0), err)
		warning := "still taints new nodes for the deleted rule deleted: run kubectl delete admissionrules nodegate, and " +
			"then this command with --api-group="
		Expect(err).To(ContainSubstring(warning))
		Expect(server.Client.Delete(ctx, listed)).To(Succeed())
		Expect(err).To(ContainSubstring("Removes the taints, records, completion markers and conditions of deleted rules, " +
			"and overrides that have ended, from 3 nodes (deleted, ended, gone).\nRemoves the finalizer of 1 deleted rule.\n"))
		Expect(err).To(ContainSubstring("warning: node kept: the annotation nodegate.io/override stays"))
		Expect(out).To(Equal("node/deleted cleaned up (server dry run)\nnode/ended cleaned up (server dry run)\n" +
			"node/gone cleaned up (server dry run)\n" +
			"nodereadinessrule.readiness.node.x-k8s.io/deleted cleaned up (server dry run)\n"))
		c := calling("no\n")
		Expect(c.run(ctx, "cleanup", group)).To(Equal(1))
		Expect(c.err.String()).To(HaveSuffix("error: nothing was changed\n"))
		Expect(keys(read(ctx, onDeleted))).To(ConsistOf("readiness.k8s.io/deleted", "example.com/foreign"))

		code, out, err = nodegate(ctx, "cleanup", "--yes", group)
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("node/deleted cleaned up\nnode/ended cleaned up\nnode/gone cleaned " +
			"up\nnodereadinessrule.readiness.node.x-k8s.io/deleted cleaned up\n"))
		for _, n := range []*corev1.Node{onDeleted, onGone} {
			Expect(keys(read(ctx, n))).To(ConsistOf("example.com/foreign"))
			Expect(n.Annotations).To(BeEmpty())
			Expect(n.Status.Conditions).To(BeEmpty())
		}
		Expect(read(ctx, ended).Annotations).To(BeEmpty())
		Expect(keys(read(ctx, onKept))).To(ConsistOf("readiness.k8s.io/kept", "example.com/foreign"))
		Expect(onKept.Annotations).To(HaveLen(3))
		Expect(onKept.Status.Conditions).To(HaveLen(1))
		Expect(apierrors.IsNotFound(server.Client.Get(ctx, keyOf("deleted"), deleted))).To(BeTrue())
		Expect(read(ctx, kept).Finalizers).To(Equal([]string{v1alpha1.Served().Finalizer}))

		code, _, err = nodegate(ctx, "cleanup", group)
		Expect(code).To(Equal(0))
		Expect(err).NotTo(ContainSubstring(warning))
		Expect(err).To(ContainSubstring("Nothing to do"))
	})

	It("works without the CRD", func(ctx context.Context) {
		other := cluster.ForTest(GinkgoTB(), cluster.Options{})
		n := build.MakeNode("stranded").Taint("readiness.k8s.io/stranded", "pending", corev1.TaintEffectNoSchedule).
			Annotation(v1alpha1.RecordAnnotationPrefix+"0-0-0", `{"taint":"readiness.k8s.io/stranded=pending:NoSchedule"}`).Obj()
		Expect(other.Client.Create(ctx, n)).To(Succeed())

		c := calling("")
		Expect(run(ctx, c.plugin, []string{"cleanup", "--yes", "--kubeconfig", other.Kubeconfig()})).To(Equal(1))
		Expect(c.err.String()).To(ContainSubstring("set --api-group"), "the markers of nodes may be another controller's")
		c = calling("")
		Expect(run(ctx, c.plugin, []string{"cleanup", "--yes", group, "--kubeconfig", other.Kubeconfig()})).To(Equal(0),
			c.err.String())
		Expect(c.out.String()).To(Equal("node/stranded cleaned up\n"))
		Expect(other.Client.Get(ctx, keyOf("stranded"), n)).To(Succeed())
		Expect(keys(n)).To(BeEmpty())
		Expect(n.Annotations).To(BeEmpty())

		c = calling("")
		Expect(run(ctx, c.plugin, []string{"suggest", "--kubeconfig", other.Kubeconfig()})).To(Equal(0), c.err.String())
		Expect(c.err.String()).To(ContainSubstring("note: the cluster does not have the CRD NodeReadinessRule"))
	})

	It("does nothing in a group that may be another controller's", func(ctx context.Context) {
		n := claimed(ctx, "theirs", "0-0-0")
		code, _, err := nodegate(ctx, "cleanup", "--yes")
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("may belong to another controller"))
		Expect(keys(read(ctx, n))).To(ContainElement("readiness.k8s.io/theirs"))
	})

	It("takes the group from the installation where both CRDs exist", func(ctx context.Context) {
		both := cluster.ForTest(GinkgoTB(), cluster.Options{CRD: true})
		Expect(v1alpha1.Serve("rules.nodegate.io")).To(Succeed())
		own, err := crd.Load()
		Expect(v1alpha1.Serve("readiness.node.x-k8s.io")).To(Succeed())
		Expect(err).NotTo(HaveOccurred())
		Expect(both.Client.Create(ctx, own.DeepCopy())).To(Succeed())
		live := network("live", "live").Obj()
		Expect(both.Client.Create(ctx, live)).To(Succeed())
		n := build.MakeNode("n").Label("test", "live").
			Taint("readiness.k8s.io/live", "pending", corev1.TaintEffectNoSchedule).
			Annotation(v1alpha1.RecordAnnotationPrefix+string(live.UID),
				`{"rule":"live","taint":"readiness.k8s.io/live=pending:NoSchedule"}`).Obj()
		Expect(both.Client.Create(ctx, n)).To(Succeed())
		cleanup := func(want int, args ...string) string {
			c := calling("")
			code := run(ctx, c.plugin, append(args, "cleanup", "--yes", "--kubeconfig", both.Kubeconfig()))
			ExpectWithOffset(1, code).To(Equal(want), c.err.String())
			return c.err.String()
		}
		DeferCleanup(func() { Expect(v1alpha1.Serve("readiness.node.x-k8s.io")).To(Succeed()) })
		const owns = "--api-group=rules.nodegate.io"
		Eventually(func() string { return cleanup(1) }).Should(ContainSubstring("set --api-group"))
		Expect(cleanup(1, owns)).To(ContainSubstring("rule live in the API group readiness.node.x-k8s.io is Nodegate's: set"))
		ours := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"nodeSelector": map[string]any{"matchLabels": map[string]any{"test": "ours"}},
			"conditions":   []any{map[string]any{"type": cni, "requiredStatus": "True"}},
			"publish":      map[string]any{"conditionType": "example.com/Verdict"},
		}}}
		ours.SetAPIVersion("rules.nodegate.io/v1alpha1")
		ours.SetKind("NodeReadinessRule")
		ours.SetName("ours")
		ours.SetFinalizers([]string{"nodegate.io/cleanup-taints"})
		Expect(both.Client.Create(ctx, ours)).To(Succeed())
		Expect(cleanup(1, group)).To(ContainSubstring("rule ours in the API group rules.nodegate.io is Nodegate's: set"))
		ours.SetFinalizers(nil)
		Expect(both.Client.Update(ctx, ours)).To(Succeed())
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default", Labels: input.OperatorLabels}}
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: d.Labels}
		d.Spec.Template.Labels = d.Labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "a", Args: []string{owns}}}
		Expect(both.Client.Create(ctx, d)).To(Succeed())
		Expect(cleanup(1, group)).To(ContainSubstring("Deployment serves the API group rules.nodegate.io, not"))
		d.Spec.Template.Spec.Containers[0].Args = nil
		Expect(both.Client.Update(ctx, d)).To(Succeed())
		Expect(cleanup(1)).To(ContainSubstring("may belong to another controller"), "any user can create a Deployment")
		Expect(both.Client.Create(ctx, &admissionv1alpha1.AdmissionRules{
			ObjectMeta:   metav1.ObjectMeta{Name: admissionv1alpha1.Name},
			MarkerPrefix: "readiness.k8s.io/bootstrap-completed-"})).To(Succeed())
		Expect(cleanup(0)).To(ContainSubstring("Nothing to do"))
		Expect(cleanup(1, owns)).To(ContainSubstring("the API group of Nodegate in this cluster is readiness.node.x-k8s.io"))
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: ruleset.IncumbentLease, Namespace: "default"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: new("incumbent-0"), RenewTime: new(metav1.NowMicro())}}
		Expect(both.Client.Create(ctx, lease)).To(Succeed())
		Expect(cleanup(1, group)).To(ContainSubstring("another controller acts on the rules: incumbent-0"))
		Expect(both.Client.Get(ctx, keyOf("n"), n)).To(Succeed())
		Expect(keys(n)).To(ConsistOf("readiness.k8s.io/live"))
	})

	It("waits for a policy that has just been deleted", func(ctx context.Context) {
		n := claimed(ctx, "guarded", "0-0-0")
		policy := create(ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "cleanup"},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Update},
						Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
							Resources: []string{"nodes"}},
					}}}},
				Validations: []admissionv1.Validation{{Expression: "object.metadata.name != 'guarded'",
					Reason: new(metav1.StatusReasonForbidden)}},
			}})
		create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "cleanup"},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "cleanup", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			}})
		Eventually(func() error {
			return server.Client.Patch(ctx, n.DeepCopy(), client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata": {"labels": {"a": "b"}}}`)), client.DryRunAll)
		}).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy")))

		c, code := calling(""), make(chan int)
		go func() { code <- c.run(ctx, "cleanup", "--yes", group) }()
		Eventually(c.err.String).Should(ContainSubstring("an admission policy protects the records"))
		Expect(server.Client.Delete(ctx, policy)).To(Succeed())
		Eventually(code).Should(Receive(Equal(0)), c.err.String)
		Expect(keys(read(ctx, n))).To(ConsistOf("example.com/foreign"))
	})

	It("does nothing if it cannot know whether an operator leads", func(ctx context.Context) {
		n := claimed(ctx, "unled", "0-0-0")
		allow(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "no-leases"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"", "nodegate.io", v1alpha1.Served().Name, v1alpha1.OtherGroup().Name},
			Resources: []string{"*"}, Verbs: []string{"*"}}}})
		Eventually(func() string {
			_, _, err := nodegate(ctx, "cleanup", "--yes", group, "--as", "no-leases")
			return err
		}).Should(ContainSubstring("error: listing leases, which tell whether an operator leads: permission denied"))
		Consistently(func() []string {
			_, _, _ = nodegate(ctx, "cleanup", "--yes", group, "--as", "no-leases")
			return keys(read(ctx, n))
		}, "1s").Should(ContainElement("readiness.k8s.io/unled"))
	})

	It("leaves it to the operator while one leads", func(ctx context.Context) {
		n := claimed(ctx, "led", "0-0-0")
		lease := leads(ctx, -90*time.Second) // its node's clock is behind
		code, _, err := nodegate(ctx, "cleanup", "--yes", group)
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("operator manager-0 is running, according to its lease: delete the rules"))
		ahead := calling("")
		ahead.plugin.now = func() time.Time { return time.Now().Add(time.Hour) }
		Expect(ahead.run(ctx, "cleanup", "--yes", group)).To(Equal(1), "the lease counts by the API server's clock")
		Expect(keys(read(ctx, n))).To(ContainElement("readiness.k8s.io/led"))

		dies(ctx, lease, 5*time.Minute)
		code, _, err = nodegate(ctx, "cleanup", "--yes", group)
		Expect(code).To(Equal(0), err)
		Expect(keys(read(ctx, n))).NotTo(ContainElement("readiness.k8s.io/led"))
	})
})
