// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// operator creates the operator's deployment, with a secret in its environment.
func operator(ctx context.Context, image string, args ...string) {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "operator", Namespace: "default", Labels: input.OperatorLabels,
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "hunter2"}},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: input.OperatorLabels}},
	}
	d.Spec.Template.Labels = input.OperatorLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "manager", Image: image, Args: append(args, "--transient-taint-prefixes=example.com/a,example.com/b"),
		Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}},
	}}
	create(ctx, d)
}

var _ = Describe("version", func() {
	It("compares the plugin with the operator and the CRD", func(ctx context.Context) {
		operator(ctx, "registry.example.com/nodegate:v0.9.0")
		c, failed := input.New(ctx, server.Config(), "")
		Expect(failed).NotTo(HaveOccurred())
		Expect(c.Read(ctx, ruleset.NewSet()).TransientTaintPrefixes).To(Equal([]string{"example.com/a", "example.com/b"}))
		code, out, err := nodegate(ctx, "version", "-o", "json")
		Expect(code).To(Equal(0), err)
		v := &report.Versions{}
		Expect(json.Unmarshal([]byte(out), v)).To(Succeed())
		Expect(v.Plugin).To(Equal("dev"))
		Expect(v.Operator).To(Equal([]string{"registry.example.com/nodegate:v0.9.0"}))
		Expect(v.CRD).To(Equal("Same"))
		Expect(v.Skew).To(BeEmpty(), "a development build has no version to compare")

		Expect(skew("v0.8.0", "registry.example.com/nodegate:v0.9.0@sha256:1")).To(ContainSubstring("the plugin is v0.8.0"))
		Expect(skew("v0.9.0", "registry.example.com/nodegate:v0.9.0@sha256:1")).To(BeEmpty())
		Expect(skew("v0.9.0", "registry.example.com:5000/nodegate:v0.9.0-rc.1")).NotTo(BeEmpty())
		Expect(skew("v0.9.0", "registry.example.com/nodegate@sha256:1")).To(BeEmpty(), "a digest has no version")
	})

	It("does not need a server with --client", func(ctx context.Context) {
		code, out, err := local(ctx, "version", "--client")
		Expect(code).To(Equal(0), err)
		Expect(out).To(HavePrefix("Plugin: dev ("))
	})
})

var _ = Describe("support-bundle", func() {
	It("has rules, nodes, objects and explanations, and no secrets", func(ctx context.Context) {
		operator(ctx, "registry.example.com/nodegate:v0.9.0")
		node(ctx, "bundled")
		rule := network("bundled", "bundled").Probe(cni, 80).Obj()
		rule.Spec.Probes[0] = v1alpha1.Probe{ConditionType: cni, HTTPGet: &v1alpha1.HTTPGetAction{Port: 80,
			HTTPHeaders: []v1alpha1.HTTPHeader{{Name: "Authorization", Value: "hunter2"}}}}
		create(ctx, rule)
		meta := metav1.ObjectMeta{Name: "s", Namespace: "default", Labels: input.OperatorLabels}
		create(ctx, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"password": "hunter2"}})
		create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"rules.json": `{"checks": [{"httpGet":
			{"port": 80, "httpHeaders": [{"name": "Authorization", "value": "hunter2"}]}}]}`,
			"broken": "httpHeaders: [hunter2"}})
		create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "of-this-installation", Namespace: "default"}})
		create(ctx, &admissionv1alpha1.AdmissionRules{ObjectMeta: metav1.ObjectMeta{Name: admissionv1alpha1.Name}})
		create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: meta})
		create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: meta})
		create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p",
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}})
		name := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
		code, _, err := nodegate(ctx, "support-bundle", "--file", name)
		Expect(code).To(Equal(0), err)
		Expect(err).To(HaveSuffix("Wrote " + name + "\n"))

		code, out, err := nodegate(ctx, "support-bundle", "--file", "-")
		Expect(code).To(Equal(0), err)
		files := unpacked(out)
		Expect(files).NotTo(HaveKey("nodegate/errors.txt"), "not every cluster has the CRD of KeptEndpoints")
		Expect(files).To(HaveKeyWithValue("nodegate/customresourcedefinition.yaml", ContainSubstring("kind: AdmissionRules")))
		for file, content := range map[string]string{
			"nodereadinessrule.yaml": "name: bundled", "node.yaml": "name: bundled", "deployment.yaml": "REDACTED",
			"customresourcedefinition.yaml": "kind: NodeReadinessRule", "versions.yaml": "crd: Same",
			"explanations.yaml": "rule bundled would, if an operator acted", "configmap.yaml": "REDACTED",
			"lease.yaml": "name: of-this-installation", "admissionrules.yaml": "name: nodegate",
			"poddisruptionbudget.yaml": "name: s", "networkpolicy.yaml": "name: s",
			"validatingadmissionpolicybinding.yaml": "name: s",
		} {
			Expect(files).To(HaveKeyWithValue("nodegate/"+file, ContainSubstring(content)))
		}
		for name, content := range files {
			Expect(content).NotTo(ContainSubstring("hunter2"), name)
			Expect(content).NotTo(ContainSubstring("managedFields:"), name)
		}

		code, _, err = nodegate(ctx, "support-bundle", "--file", name)
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring("file exists"), "a file is not replaced")
	})

	It("lists what it has no permission to read, and goes on", func(ctx context.Context) {
		viewer(ctx)
		Eventually(func(g Gomega) { // the API server takes a moment to see the permissions
			code, out, err := nodegate(ctx, "support-bundle", "--file", "-", "--as", "viewer")
			g.Expect(code).To(Equal(0), err)
			g.Expect(unpacked(out)).To(HaveKeyWithValue("nodegate/errors.txt",
				ContainSubstring("listing Pod: permission denied")))
		}).Should(Succeed())
	})

	It("fails if it has no permission at all", func(ctx context.Context) {
		name := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
		code, _, err := nodegate(ctx, "support-bundle", "--file", name, "--as", "guest")
		Expect(code).To(Equal(1))
		Expect(err).To(HavePrefix("error: nothing could be read: listing NodeReadinessRule: permission denied"))
		Expect(name).NotTo(BeAnExistingFile())
	})
})

// unpacked returns the files of a .tar.gz file.
func unpacked(content string) map[string]string {
	GinkgoHelper()
	unzipped, err := gzip.NewReader(strings.NewReader(content))
	Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		raw, err := io.ReadAll(r)
		Expect(err).NotTo(HaveOccurred())
		files[header.Name] = string(raw)
	}
}
