// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
)

// The policy of config/components/record-guard.
var _ = Describe("The records on a node", func() {
	const (
		key     = v1alpha1.RecordAnnotationPrefix + "5c6b1a0e"
		claim   = `{"rule":"network","taint":"readiness.example.com/network=pending:NoSchedule"}`
		another = `{"rule":"network","taint":"readiness.example.com/network=pending:NoSchedule",` +
			`"released":"2026-01-01T00:00:00Z"}`
	)
	taint := func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "readiness.example.com/network", Value: "pending",
			Effect: corev1.TaintEffectNoSchedule})
	}
	annotate := func(value string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			if n.Annotations == nil {
				n.Annotations = map[string]string{}
			}
			n.Annotations[key] = value
		}
	}
	both := func(edits ...func(*corev1.Node)) func(*corev1.Node) {
		return func(n *corev1.Node) {
			for _, edit := range edits {
				edit(n)
			}
		}
	}
	nothing := func(*corev1.Node) {}

	DescribeTable("are written by the operator only",
		func(ctx context.Context, before, change func(*corev1.Node), allowed bool) {
			for who, c := range map[string]client.Client{"operator": operator, "administrator": server.Client, "kubelet": nil} {
				node := build.MakeNode("recorded-" + who).Obj()
				Expect(server.Client.Create(ctx, node)).To(Succeed())
				DeferCleanup(func(ctx context.Context) { Expect(server.Client.Delete(ctx, node)).To(Succeed()) })
				before(node)
				Expect(operator.Update(ctx, node)).To(Succeed())
				change(node)
				if c == nil { // by the node's status, which carries annotations as well
					kubelet, err := server.As("system:node:"+node.Name, "system:nodes")
					Expect(err).NotTo(HaveOccurred())
					node.Status.NodeInfo.BootID = "another"
					err = kubelet.Status().Update(ctx, node)
					if len(node.Spec.Taints) > 1 {
						continue // it may not change taints, and the API server drops them
					}
					expectAllowed(err, allowed, who)
					continue
				}
				expectAllowed(c.Update(ctx, node), allowed || who == "operator", who)
			}
		},
		Entry("nothing of them changes", annotate(claim), taint, true),
		Entry("another annotation changes", annotate(claim), func(n *corev1.Node) { n.Annotations["example.com/x"] = "y" },
			true),
		Entry("one is added", nothing, annotate(another), false),
		Entry("one is changed", annotate(claim), annotate(another), false),
		Entry("one is removed", annotate(claim), func(n *corev1.Node) { n.Annotations = nil }, false),
		Entry("one is added that claims what is not there", nothing, annotate(claim), false),
		Entry("one is added that claims what was there before", taint, annotate(claim), false),
		Entry("a claim comes with its taint, as from admission", nothing, both(taint, annotate(claim)), true),
		Entry("a claim comes with its taint and with more", nothing, both(taint, annotate(another)), false),
	)

	DescribeTable("may claim, on a new node, only a taint that the node brings",
		func(ctx context.Context, change func(*corev1.Node), allowed bool) {
			// The webhook, which drops records of new nodes, does not see a node with this label. Only administrators
			// may set it.
			node := build.MakeNode("born").Label("node-restriction.kubernetes.io/skip-admission", "").Obj()
			change(node)
			expectAllowed(server.Client.Create(ctx, node, client.DryRunAll), allowed, "administrator")
		},
		Entry("no record", nothing, true),
		Entry("a record without its taint", annotate(claim), false),
		Entry("a record of another taint", both(taint,
			annotate(`{"rule":"network","taint":"example.com/other=:NoSchedule"}`)), false),
		Entry("a record with more than a claim", both(taint, annotate(another)), false),
		Entry("a record with its taint", both(taint, annotate(claim)), true),
	)
})

// An expression that costs more than the API server allows ends with an error, and an error admits the request.
var _ = Describe("A node as large as the API server accepts", func() {
	const size = 256 << 10
	fill := func(number, bytes int) map[string]string {
		out := map[string]string{}
		for i := range number {
			key := strconv.FormatInt(int64(i), 36)
			out[key] = strings.Repeat("y", max(0, bytes/number-len(key)))
		}
		return out
	}
	forge := func(records int) map[string]string {
		out := map[string]string{}
		for i := range records {
			out[fmt.Sprintf("%s%d", v1alpha1.RecordAnnotationPrefix, i)] =
				fmt.Sprintf(`{"rule":"network","taint":"example.com/%d=:NoSchedule","released":"2026-01-01T00:00:00Z"}`, i)
		}
		return out
	}
	crowd := func(taints int) func(n *corev1.Node) {
		return func(n *corev1.Node) {
			for i := range taints {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: fmt.Sprintf("%s.example.com/%d",
					strings.Repeat("long.", 29)+"long", i), Effect: corev1.TaintEffectNoSchedule})
			}
		}
	}
	and := func(parts ...map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range parts {
			maps.Copy(out, m)
		}
		return out
	}
	override := map[string]string{v1alpha1.OverrideAnnotation: "Release"}

	DescribeTable("brings nothing that only the operator, or not a kubelet, may write",
		func(ctx context.Context, annotations map[string]string, edit func(*corev1.Node), text string) {
			kubelet, err := server.As("restricted", "system:nodes", "system:masters")
			Expect(err).NotTo(HaveOccurred())
			node := build.MakeNode("large").Label("node-restriction.kubernetes.io/skip-admission", "").Obj()
			if edit != nil {
				edit(node)
			}
			registered := node.DeepCopy()
			registered.Annotations = annotations
			Expect(kubelet.Create(ctx, registered, client.DryRunAll)).To(MatchError(MatchRegexp(text)), "registration")
			Expect(server.Client.Create(ctx, node)).To(Succeed())
			DeferCleanup(func(ctx context.Context) { Expect(server.Client.Delete(ctx, node)).To(Succeed()) })
			node.Annotations = annotations
			Expect(kubelet.Status().Update(ctx, node)).To(MatchError(MatchRegexp(text)), "update of the status")
		},
		Entry("10,000 annotations", and(fill(10_000, 0), forge(1)), nil,
			"at most 1000 annotations|written by it only"), // two policies refuse it, and the API server names one of them
		Entry("an override, and annotations of 190 KiB", and(fill(499, 190<<10), override), nil,
			"cannot be written by a kubelet"),
		Entry("500 records", forge(500), nil, "written by it only"),
		Entry("200 records, and many taints", forge(200), crowd(1000), "written by it only"),
		Entry("200 records, and taints", forge(200), crowd(190), "written by it only"),
		Entry("more than 500 annotations", fill(501, 0), nil, "only up to 500"),
		Entry("more than 192 KiB", fill(3, 192<<10+3), nil, "only up to 192 KiB"),
		Entry("more than 192 KiB of other characters", map[string]string{"x": strings.Repeat("\u00e4", 97<<10)}, nil,
			"only up to 192 KiB"),
	)

	It("keeps what it has, and the operator has room", func(ctx context.Context) {
		kubelet, err := server.As("system:node:full", "system:nodes")
		Expect(err).NotTo(HaveOccurred())
		node := build.MakeNode("full").Obj()
		node.Annotations = fill(1000, size-5000)
		Expect(server.Client.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(server.Client.Delete(ctx, node)).To(Succeed()) })
		node.Status.NodeInfo.BootID = "another"
		Expect(kubelet.Status().Update(ctx, node)).To(Succeed())
		before := node.DeepCopy()
		node.Annotations["another"] = ""
		Expect(server.Client.Update(ctx, node)).To(MatchError(ContainSubstring("at most 1000 annotations")))
		delete(before.Annotations, "1")
		Expect(kubelet.Status().Update(ctx, before)).To(Succeed())
		before.Annotations[v1alpha1.RecordAnnotationPrefix+"a"], before.Annotations["b"] = "{}", ""
		Expect(operator.Update(ctx, before)).To(Succeed())
	})

	It("is admitted with the claims of 200 rules", func(ctx context.Context) {
		node := build.MakeNode("claimed").Label("node-restriction.kubernetes.io/skip-admission", "").Obj()
		node.Annotations = map[string]string{}
		for i := range 200 {
			key := fmt.Sprintf("%s.example.com/%d", strings.Repeat("long.", 29)+"long", i)
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
			node.Annotations[fmt.Sprintf("%s%d", v1alpha1.RecordAnnotationPrefix, i)] =
				fmt.Sprintf(`{"rule":"%s","taint":"%s=:NoSchedule"}`, strings.Repeat("long", 50), key)
		}
		Expect(server.Client.Create(ctx, node, client.DryRunAll)).To(Succeed(), "with the taint of an unready node")
		node.Annotations[v1alpha1.RecordAnnotationPrefix+"0"] = `{"rule":"network","taint":"example.com/x=:NoSchedule"}`
		Expect(server.Client.Create(ctx, node, client.DryRunAll)).To(MatchError(ContainSubstring("written by it only")))
	})
})

var _ = Describe("What overrules a node's rules", func() {
	keys := []string{v1alpha1.OverrideAnnotation, "nodegate.io/maintenance",
		v1alpha1.Served().MarkerPrefix + "network"}

	It("cannot be written by a kubelet, nor through the status of nodes", func(ctx context.Context) {
		kubelet, err := server.As("system:node:overruled", "system:nodes")
		Expect(err).NotTo(HaveOccurred())
		for _, key := range keys {
			node := build.MakeNode("overruled").Annotation(key, "Release").Obj()
			Expect(kubelet.Create(ctx, node)).To(MatchError(ContainSubstring("cannot be written by a kubelet")), key)
			delete(node.Annotations, key)
			Expect(kubelet.Create(ctx, node)).To(Succeed())
			DeferCleanup(func(ctx context.Context) {
				Expect(client.IgnoreNotFound(server.Client.Delete(ctx, node))).To(Succeed())
			})
			for who, write := range map[string]func(*corev1.Node) error{
				"the kubelet":                     func(n *corev1.Node) error { return kubelet.Update(ctx, n) },
				"the kubelet, by the status":      func(n *corev1.Node) error { return kubelet.Status().Update(ctx, n) },
				"an administrator, by the status": func(n *corev1.Node) error { return server.Client.Status().Update(ctx, n) },
				"the kubelet, by a patch of status": func(n *corev1.Node) error {
					return kubelet.Status().Patch(ctx, n,
						client.Merge)
				},
			} {
				changed := node.DeepCopy()
				changed.Annotations = map[string]string{key: "Release"}
				if who == "the kubelet, by a patch of status" {
					changed.ResourceVersion = ""
				}
				Expect(write(changed)).To(MatchError(ContainSubstring("cannot be written by a kubelet")), who+" "+key)
			}
			node.Annotations = map[string]string{key: "Release"}
			Expect(server.Client.Update(ctx, node)).To(Succeed(), "an administrator writes it to the node")
			node.Status.NodeInfo.BootID = "another"
			Expect(kubelet.Status().Update(ctx, node)).To(Succeed(), "what is there does not keep the kubelet from its status")
			removed := node.DeepCopy()
			removed.Annotations = nil
			Expect(kubelet.Status().Update(ctx, removed)).To(MatchError(ContainSubstring("cannot be written by a kubelet")),
				"a removal")
			Expect(server.Client.Delete(ctx, node)).To(Succeed())
		}
	})
})

var _ = Describe("The lease of another controller of rules", func() {
	It("is written only by accounts that may write the rules' status", func(ctx context.Context) {
		role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "update"}},
		}}
		controller := role.DeepCopy()
		controller.Rules = append(controller.Rules, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.Served().Name},
			Resources: []string{"nodereadinessrules/status"}, Verbs: []string{"update"}})
		for name, role := range map[string]*rbacv1.ClusterRole{"editor": role, "controller": controller} {
			role.Name = name
			Expect(server.Client.Create(ctx, role)).To(Succeed())
			Expect(server.Client.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}})).To(Succeed())
		}
		editor, err := server.As("editor")
		Expect(err).NotTo(HaveOccurred())
		incumbent, err := server.As("controller")
		Expect(err).NotTo(HaveOccurred())
		lease := func(namespace, name string) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		}
		refused := MatchError(ContainSubstring("only accounts that may write the status"))
		Eventually(func() error {
			return editor.Create(ctx, lease("default", ruleset.IncumbentLease), client.DryRunAll)
		}).Should(refused)
		Expect(editor.Create(ctx, lease("default", "another"))).To(Succeed())
		Expect(editor.Create(ctx, lease("kube-node-lease", ruleset.IncumbentLease))).To(Succeed())
		theirs := lease("default", ruleset.IncumbentLease)
		Eventually(func() error { return incumbent.Create(ctx, theirs) }).Should(Succeed())
		theirs.Spec.HolderIdentity = new("editor")
		Expect(editor.Update(ctx, theirs)).To(refused)
		Expect(incumbent.Update(ctx, theirs)).To(Succeed())
		Expect(server.Client.Delete(ctx, theirs)).To(Succeed())
	})
})

func expectAllowed(err error, allowed bool, who string) {
	GinkgoHelper()
	if allowed {
		Expect(err).NotTo(HaveOccurred(), who)
		return
	}
	Expect(err).To(MatchError(ContainSubstring("written by it only")), who)
}
