// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/cluster"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/test/build"
)

var _ = Describe("explain", func() {
	It("says what a node waits for, as text and as an object", func(ctx context.Context) {
		node(ctx, "explained")
		ruleFor(ctx, "explained", "explained")

		code, out, err := nodegate(ctx, "explain", "node", "explained")
		Expect(err).To(BeEmpty())
		Expect(code).To(Equal(0))
		Expect(out).To(HavePrefix("Node explained is not held yet; rule explained is about to hold it: condition example.com/CNI has not been reported, must be True.\n"))

		_, out, _ = nodegate(ctx, "explain", "node/explained", "-o", "json")
		e := &report.NodeExplanation{}
		Expect(json.Unmarshal([]byte(out), e)).To(Succeed())
		Expect(e.Kind).To(Equal(report.KindNodeExplanation))
		Expect(e.APIVersion).To(Equal(report.APIVersion))
		Expect(e.Rules).To(HaveLen(1))
		Expect(e.Rules[0].WaitsFor).To(Equal([]string{"condition example.com/CNI has not been reported, must be True"}))

		_, out, _ = nodegate(ctx, "explain", "node", "explained", "-o", "jsonpath={.rules[0].taint.change}")
		Expect(out).To(Equal("Add"))
	})

	It("asks a rule's breaker with all nodes at hand", func(ctx context.Context) {
		rule := create(ctx, network("limited", "limited").MaxUnavailable("0").Obj())
		n := node(ctx, "limited")
		n.Annotations = map[string]string{v1alpha1.RecordAnnotationPrefix + string(rule.UID): fmt.Sprintf(`{"released":%q}`, n.CreationTimestamp.UTC().Format(time.RFC3339))}
		Expect(server.Client.Update(ctx, n)).To(Succeed())
		_, out, _ := nodegate(ctx, "explain", "node", "limited")
		Expect(out).To(ContainSubstring("rule limited lets it be: not held, because as many nodes as maxUnavailable allows (0) are held already"))
	})

	It("says which evidence somebody may not read, and goes on", func(ctx context.Context) {
		node(ctx, "secret")
		rule := network("secret", "secret").Obj()
		rule.Spec.Requirements = []v1alpha1.Requirement{
			{Name: "init", Pods: &v1alpha1.PodsRequirement{Namespace: "kube-system", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
			{Name: "ebs", CSIDriver: &v1alpha1.CSIDriverRequirement{Name: "ebs.csi.aws.com"}},
		}
		create(ctx, rule)
		create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"nodereadinessrules"}, Verbs: []string{"list"}},
		}})
		create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "viewer"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "viewer", APIGroup: rbacv1.GroupName}}})

		Eventually(func(g Gomega) { // the API server's own view of the rights is a moment behind
			code, out, err := nodegate(ctx, "explain", "node", "secret", "--as", "viewer")
			g.Expect(err).To(BeEmpty())
			g.Expect(code).To(Equal(0))
			g.Expect(out).To(ContainSubstring("? requirement init could not be read: pods is forbidden"))
			g.Expect(out).To(ContainSubstring("? requirement ebs could not be read: csinodes.storage.k8s.io is forbidden"))
			g.Expect(out).To(ContainSubstring("✗ condition example.com/CNI has not been reported"))
			g.Expect(out).To(ContainSubstring("Could not be read: listing events: you may not"))
		}).Should(Succeed())
	})

	DescribeTable("says what to do about", func(ctx context.Context, says string, args ...string) {
		code, out, err := nodegate(ctx, args...)
		Expect(code).To(Equal(1))
		Expect(out).To(BeEmpty())
		Expect(err).To(HavePrefix("error: "))
		Expect(err).To(ContainSubstring(says))
	},
		Entry("a node that is not there", `"kubectl get nodes" and "kubectl get nrr" list what there is`, "explain", "node", "nope"),
		Entry("no name", "say which node", "explain", "node"),
		Entry("another kind", `"pod/x" is not understood: say which node: node NAME`, "explain", "pod/x"),
		Entry("nobody's rights", "you may not: ask whoever manages access", "explain", "node", "x", "--as", "nobody"),
		Entry("an output that is not there", "allowed formats are: go-template", "explain", "node", "x", "-o", "xml"),
		Entry("another context", `context "nope" does not exist`, "explain", "node", "x", "--context", "nope"),
		Entry("a server that is not there", "the server cannot be reached", "explain", "node", "x", "--server", "https://127.0.0.1:1"),
	)
})

var _ = Describe("release, hold and clear", func() {
	override := func(ctx context.Context, name string) string {
		return read(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}).Annotations[v1alpha1.OverrideAnnotation]
	}

	It("write the override, and take it off again", func(ctx context.Context) {
		node(ctx, "overridden")
		code, out, err := nodegate(ctx, "release", "node", "overridden", "--yes", "--timeout=0")
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("node/overridden released\n"))
		Expect(err).To(ContainSubstring("Releases node overridden, which is not held now"))
		Expect(override(ctx, "overridden")).To(Equal("Release"))

		before := time.Now()
		_, out, _ = nodegate(ctx, "hold", "node/overridden", "--for=2h", "-y", "--timeout=0", "-o", "yaml")
		printed := &corev1.Node{}
		Expect(yaml.Unmarshal([]byte(out), printed)).To(Succeed())
		Expect(printed.Kind).To(Equal("Node"))
		value := override(ctx, "overridden")
		Expect(printed.Annotations[v1alpha1.OverrideAnnotation]).To(Equal(value))
		until, parseErr := time.Parse(time.RFC3339, strings.TrimPrefix(value, "Hold;until="))
		Expect(parseErr).NotTo(HaveOccurred())
		Expect(until).To(BeTemporally("~", before.Add(2*time.Hour), time.Minute))

		for _, clear := range []string{"clear", "unhold"} {
			code, out, err = nodegate(ctx, clear, "node", "overridden", "-y", "--timeout=0")
			Expect(code).To(Equal(0), err)
			Expect(out).To(Equal("node/overridden cleared\n"))
			Expect(override(ctx, "overridden")).To(BeEmpty())
		}
	})

	It("ask, and do nothing without a yes", func(ctx context.Context) {
		node(ctx, "asked")
		code, _, err := nodegate(ctx, "hold", "node", "asked")
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("give --yes"))
		Expect(err).To(ContainSubstring(`No enforced rule with a taint selects 1 of 1: there it has no effect until one does. "kubectl cordon" holds any node.`))
		for _, no := range []string{"n\n", "\n", "yes, but\n"} {
			c := calling(no)
			Expect(c.run(ctx, "hold", "node", "asked", "--timeout=0")).To(Equal(1))
			Expect(c.err.String()).To(ContainSubstring("Continue? [y/N] error: nothing was changed"))
			Expect(override(ctx, "asked")).To(BeEmpty())
		}
		c := calling("y\n")
		Expect(c.run(ctx, "hold", "node", "asked", "--timeout=0")).To(Equal(0))
		Expect(override(ctx, "asked")).To(Equal("Hold"))
	})

	It("only try it in a dry run", func(ctx context.Context) {
		node(ctx, "tried")
		for _, how := range []string{"client", "server"} {
			code, out, err := nodegate(ctx, "release", "node", "tried", "--dry-run="+how)
			Expect(code).To(Equal(0), err)
			Expect(out).To(Equal(fmt.Sprintf("node/tried released (%s dry run)\n", how)))
		}
		Expect(override(ctx, "tried")).To(BeEmpty())
	})

	It("take nodes by their labels", func(ctx context.Context) {
		for i := range 7 {
			create(ctx, build.MakeNode(fmt.Sprintf("labelled-%d", i)).Label("test", "labelled").Obj())
		}
		code, out, err := nodegate(ctx, "release", "node", "-l", "test=labelled", "-y", "--timeout=0")
		Expect(code).To(Equal(0), err)
		Expect(strings.Count(out, " released\n")).To(Equal(7))
		Expect(err).To(ContainSubstring("7 nodes (labelled-0, labelled-1, labelled-2, labelled-3, labelled-4 and 2 more), of which 0 are held now"))
		code, _, err = nodegate(ctx, "release", "node", "-l", "test=none", "-y")
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("no node has the labels test=none"))
	})

	It("say when the operator does not act", func(ctx context.Context) {
		node(ctx, "waiting")
		ruleFor(ctx, "waiting", "waiting")
		code, out, err := nodegate(ctx, "hold", "node", "waiting", "-y", "--timeout=1s")
		Expect(out).To(Equal("node/waiting held\n"))
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("the operator has not acted within 1s: does it run?"))
	})

	It("do not touch another node of the same name", func(ctx context.Context) {
		n := node(ctx, "namesake")
		o := &overrideOptions{action: "Release"}
		Expect(server.Client.Delete(ctx, n.DeepCopy())).To(Succeed())
		node(ctx, "namesake")
		c, err := calling("").connected(ctx)
		Expect(err).NotTo(HaveOccurred())
		p := calling("").plugin
		o.changing = newChanging(&cobra.Command{}, "released")
		Expect(o.validate()).To(Succeed())
		Expect(p.apply(ctx, c, o.changing, n, o.patch(n, time.Now()))).To(MatchError(ContainSubstring("has been deleted and created anew")))
		Expect(override(ctx, "namesake")).To(BeEmpty())
	})

	DescribeTable("refuse", func(ctx context.Context, says string, args ...string) {
		code, _, err := nodegate(ctx, args...)
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring(says))
	},
		Entry("names and labels together", "not both", "release", "node", "a", "-l", "a=b"),
		Entry("neither", "say which node", "release", "node"),
		Entry("a negative time", "must not be negative", "hold", "node", "a", "--for=-1h"),
		Entry("an unknown dry run", "must be none, server or client", "release", "node", "a", "--dry-run=maybe"),
		Entry("a node that is not there", "not found", "release", "node", "nope", "-y"),
	)
})

// connected is a cluster for a test that calls parts of a command.
func (c *call) connected(ctx context.Context) (*cluster.Cluster, error) {
	return cluster.New(server.Config())
}

var _ = Describe("pause and resume", func() {
	It("suspend rules and put back in force just those", func(ctx context.Context) {
		ours := ruleFor(ctx, "ours", "p")
		theirs := create(ctx, network("theirs", "p").Suspend(true).Obj())

		code, out, err := nodegate(ctx, "pause", "-y")
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("nodereadinessrule.readiness.node.x-k8s.io/ours paused\n"))
		Expect(err).To(ContainSubstring("note: rule theirs is suspended already, and is left as it is"))
		Expect(err).To(ContainSubstring("Pauses rule ours, about 0 nodes: nothing is put on any of them"))
		Expect(read(ctx, ours).Spec.Suspend).To(BeTrue())
		Expect(report.PausedAt(ours).Time).To(BeTemporally("~", time.Now(), time.Minute))

		_, out, _ = nodegate(ctx, "status")
		Expect(out).To(MatchRegexp(`ours +Unreported`))

		code, out, err = nodegate(ctx, "resume", "-y")
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("nodereadinessrule.readiness.node.x-k8s.io/ours resumed\n"))
		Expect(err).To(ContainSubstring("rule theirs was suspended by somebody, not by pause, and stays so"))
		Expect(read(ctx, ours).Spec.Suspend).To(BeFalse())
		Expect(ours.Annotations).NotTo(HaveKey(v1alpha1.PausedAnnotation))
		Expect(read(ctx, theirs).Spec.Suspend).To(BeTrue())

		code, out, err = nodegate(ctx, "resume", "theirs", "--force", "-y")
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal("nodereadinessrule.readiness.node.x-k8s.io/theirs resumed\n"))
		Expect(read(ctx, theirs).Spec.Suspend).To(BeFalse())

		code, out, err = nodegate(ctx, "resume", "-y")
		Expect(code).To(Equal(0))
		Expect(out).To(BeEmpty())
		Expect(err).To(ContainSubstring("Nothing to do"))
	})

	It("say who may undo it", func(ctx context.Context) {
		rule := network("gitops", "p").Obj()
		rule.Labels = map[string]string{"kustomize.toolkit.fluxcd.io/name": "rules"}
		create(ctx, rule)
		_, _, err := nodegate(ctx, "pause", "gitops", "--dry-run=server")
		Expect(err).To(ContainSubstring("rule gitops is managed by Flux, which may undo this"))
		Expect(read(ctx, rule).Spec.Suspend).To(BeFalse())
	})

	DescribeTable("refuse", func(ctx context.Context, says string, args ...string) {
		code, _, err := nodegate(ctx, args...)
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring(says))
	},
		Entry("a rule that is not there", `there is no rule "nope"`, "pause", "nope", "-y"),
		Entry("to force everything", "--force: name the rules", "resume", "--force", "-y"),
		Entry("without rights", "you may not", "pause", "-y", "--as", "nobody"),
	)
})

var _ = Describe("status", func() {
	It("shows the operator's counts, and goes on until it is interrupted", func(ctx context.Context) {
		rule := ruleFor(ctx, "watched", "w")
		ctx, interrupt := context.WithCancel(ctx)
		defer interrupt()
		c := calling("")
		ended := make(chan int)
		go func() {
			defer GinkgoRecover()
			ended <- c.run(ctx, "status", "watched", "-w")
		}()
		Eventually(c.out.String).Should(MatchRegexp(`watched +Unreported +-`))

		rule.Status = v1alpha1.NodeReadinessRuleStatus{ObservedGeneration: rule.Generation, Nodes: &v1alpha1.NodeCounts{Matched: 5, Ready: 3, Held: 2},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "InForce", ObservedGeneration: rule.Generation, LastTransitionTime: metav1.Now()}}}
		Expect(server.Client.Status().Update(ctx, rule)).To(Succeed())
		Eventually(c.out.String).Should(MatchRegexp(`watched +InForce +5 +3 +2 `))
		interrupt()
		Eventually(ended).Should(Receive(Equal(0)))
		Expect(c.err.String()).To(BeEmpty())
	})

	It("ends with the rule that it is about", func(ctx context.Context) {
		rule := ruleFor(ctx, "vanishing", "w")
		c := calling("")
		ended := make(chan int, 1)
		go func() {
			defer GinkgoRecover()
			ended <- c.run(ctx, "status", "vanishing", "-w")
		}()
		Eventually(c.out.String).Should(ContainSubstring("vanishing"))
		Expect(server.Client.Delete(ctx, rule)).To(Succeed())
		Eventually(ended).Should(Receive(Equal(1)))
		Expect(c.err.String()).To(ContainSubstring(`there is no rule "vanishing"`))
	})

	It("is an object, too", func(ctx context.Context) {
		ruleFor(ctx, "listed", "w")
		_, out, _ := nodegate(ctx, "status", "listed", "-o", "yaml")
		list := &report.RuleStatusList{}
		Expect(yaml.UnmarshalStrict([]byte(out), list)).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(list.Items[0].State).To(Equal(report.StateUnreported))
	})
})

var _ = Describe("completion", func() {
	It("knows nodes and rules", func(ctx context.Context) {
		node(ctx, "completed")
		ruleFor(ctx, "completing", "x")
		complete := func(args ...string) string {
			c := calling("")
			Expect(run(ctx, c.plugin, append([]string{"__complete", "--kubeconfig", kubeconfig}, args...))).To(Equal(0))
			return c.out.String()
		}
		Expect(complete("explain", "")).To(HavePrefix("node\n"))
		Expect(complete("explain", "node", "comp")).To(HavePrefix("completed\n"))
		Expect(complete("explain", "node", "completed", "comp")).NotTo(ContainSubstring("completed"))
		Expect(complete("status", "comp")).To(HavePrefix("completing\n"))
		Expect(complete("status", "-o", "")).To(ContainSubstring("yaml\n"))
	})
})

// asYAML are objects as a file.
func asYAML(objects ...runtime.Object) string {
	var parts []string
	for _, o := range objects {
		raw, err := yaml.Marshal(o)
		Expect(err).NotTo(HaveOccurred())
		parts = append(parts, string(raw))
	}
	return strings.Join(parts, "---\n")
}

func typedNode(n *corev1.Node) *corev1.Node {
	n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	return n
}

func typedRule(r *build.RuleWrapper) *v1alpha1.NodeReadinessRule {
	o := r.Obj()
	o.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeReadinessRule"}
	return o
}

func typedDaemonSet(namespace string) *appsv1.DaemonSet {
	labels := map[string]string{"a": "b"}
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "init", Namespace: namespace},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/c", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}}}},
		}},
	}
}
