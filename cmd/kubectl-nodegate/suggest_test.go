// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
)

var _ = Describe("suggest", func() {
	It("prints a rule that the API server accepts, and for which lint has no warning", func(ctx context.Context) {
		create(ctx, build.MakeNode("suggested").Label("test", "suggested").Label(corev1.LabelOSStable, "linux").Obj())
		create(ctx, build.MakeDaemonSet("default", "some-cni").Tolerate("").Template(func(pod *corev1.PodSpec) {
			pod.Volumes = []corev1.Volume{{Name: "cni", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cni/net.d"}}}}
			pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cni", MountPath: "/etc/cni/net.d"}}
		}).Obj())
		code, out, err := nodegate(ctx, "suggest")
		Expect(code).To(Equal(0), err)
		Expect(out).To(HavePrefix("# DaemonSet default/some-cni installs a network plugin: it mounts /etc/cni/net.d.\n"))
		Expect(err).To(ContainSubstring("note: rule network: selects "))
		Expect(err).To(ContainSubstring("suggested"), "no pod runs there")

		rule := &v1alpha1.NodeReadinessRule{}
		Expect(yaml.UnmarshalStrict([]byte(out), rule)).To(Succeed())
		Expect(server.Client.Create(ctx, rule, client.DryRunAll)).To(Succeed())
		code, lint, _ := nodegate(ctx, "lint", "--live", "--strict", "-f", file("network.yaml", out))
		Expect(code).To(Equal(0), lint)

		_, list, _ := nodegate(ctx, "suggest", "-o", "json")
		Expect(strings.Count(list, `"kind": "NodeReadinessRule"`)).To(Equal(1))
		operator(ctx, "registry.example.com/nodegate:v0.9.0", "--rule-key-prefixes=example.com/")
		_, list, err = nodegate(ctx, "suggest", "-o", "json")
		Expect(strings.Count(list, `"kind": "NodeReadinessRule"`)).To(Equal(0))
		Expect(err).To(ContainSubstring(`it is left out: spec.taint.key: the key "readiness.k8s.io/NetworkReady" is not ` +
			"allowed"))
		create(ctx, rule)
		_, out, err = nodegate(ctx, "suggest")
		Expect(out).To(BeEmpty())
		Expect(err).To(ContainSubstring("rule network requires the network of DaemonSet default/some-cni already"))
	})

	It("names what it may not list, and leaves it out", func(ctx context.Context) {
		create(ctx, build.MakeNode("suggested-in-part").Label(corev1.LabelOSStable, "linux").Obj())
		allow(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "partial"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}},
			{APIGroups: []string{v1alpha1.Served().Name}, Resources: []string{"*"}, Verbs: []string{"list"}},
		}})
		Eventually(func(g Gomega) { // the API server takes a moment to see the permissions
			code, out, err := nodegate(ctx, "suggest", "--as", "partial")
			g.Expect(code).To(Equal(0), err)
			g.Expect(out).To(BeEmpty())
			g.Expect(err).To(And(ContainSubstring("note: all components are left out: listing daemonsets: permission denied"),
				ContainSubstring("note: storage is left out: listing csinodes"),
				Not(ContainSubstring("no DaemonSet is recognized"))))
		}).Should(Succeed())
	})
})
