// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
)

var _ = Describe("convert", func() {
	It("prints files for this version and another API group, and asks no server", func(ctx context.Context) {
		former := strings.Replace(valid, "spec: {", "spec: { # here\nstabilization: {minimumHoldSeconds: 1},", 1)
		other := v1alpha1.GroupNames()[1]
		want := strings.NewReplacer("minimumHold", "minHold", v1alpha1.GroupNames()[0], other).Replace(former)

		code, out, err := local(ctx, "convert", "-f", file("old.yaml", former), "-f", file("values.yaml",
			"nodeReadinessRules: []\n---\n"+former), "--to", other)
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal(want + "\n---\nnodeReadinessRules: []\n---\n" + want))
		Expect(err).To(MatchRegexp(`values.yaml: line +1: set apiGroup: ` + other))
	})

	It("says what is left of an installation whose CRD is gone", func(ctx context.Context) {
		create(ctx, &admissionv1alpha1.AdmissionRules{ObjectMeta: metav1.ObjectMeta{Name: admissionv1alpha1.Name},
			MarkerPrefix: "nodegate.io/bootstrap-completed-"})
		DeferCleanup(func() { Expect(v1alpha1.Serve(v1alpha1.GroupNames()[0])).To(Succeed()) })
		code, _, err := nodegate(ctx, "convert", "--live", "--yes", "--to", v1alpha1.GroupNames()[0])
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("run kubectl delete admissionrules --all"))
	})

	It("converts several documents in JSON, but not among other files", func(ctx context.Context) {
		const former, now = `{"stabilization": {"minimumHoldSeconds": 1}}`, `{"stabilization": {"minHoldSeconds": 1}}`
		rule := `{"apiVersion": "rules.nodegate.io/v1alpha1", "kind": "NodeReadinessRule", "spec": ` + former + "}"
		stream := file("stream.json", rule+"\n"+rule)
		code, out, err := local(ctx, "convert", "-f", stream)
		Expect(code).To(Equal(0), err)
		Expect(out).To(Equal(strings.ReplaceAll(rule+"\n"+rule, former, now)))

		code, out, err = local(ctx, "convert", "-f", file("rule.yaml", valid), "-f", stream)
		Expect(code).To(Equal(1))
		Expect(out).To(BeEmpty())
		Expect(err).To(HaveSuffix("stream.json: JSON documents without separators: convert this file alone\n"))
	})

	DescribeTable("prints nothing for", func(ctx context.Context, says string, args ...string) {
		code, out, err := local(ctx, append([]string{"convert"}, args...)...)
		Expect(code).To(Equal(1))
		Expect(out).To(BeEmpty())
		Expect(err).To(And(HavePrefix("error: "), ContainSubstring(says)))
	},
		Entry("no file", "-f is required"),
		Entry("a file without rules", "no NodeReadinessRule found", "-f", "../../PROJECT"),
		Entry("a directory", "is a directory", "-f", "."),
		Entry("an unknown group", "--to: must be readiness.node.x-k8s.io or rules.nodegate.io", "-f", "-", "--to", "a.b"),
	)
})
