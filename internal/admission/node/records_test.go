// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
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
		Entry("nothing of them changes", annotate(claim), func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} },
			true),
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

var _ = Describe("What overrules a node's rules", func() {
	keys := []string{v1alpha1.OverrideAnnotation, "readiness.node.x-k8s.io/maintenance",
		v1alpha1.BootstrapAnnotationPrefix + "network"}

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

func expectAllowed(err error, allowed bool, who string) {
	GinkgoHelper()
	if allowed {
		Expect(err).NotTo(HaveOccurred(), who)
		return
	}
	Expect(err).To(MatchError(ContainSubstring("written by it only")), who)
}
