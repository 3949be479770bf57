// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestTheOwnGroup runs what config/own-group installs in a cluster in which the default API group belongs to another
// controller, which is stopped. What that controller wrote stays as it is.
func TestTheOwnGroup(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(cluster.Limit)
	ctx, c := t.Context(), cluster.ForTest(t, cluster.Options{CRD: true})
	theirs := build.MakeRule("theirs").Selector("example.com/pool", "workers").Condition(conditionType).
		Taint("readiness.k8s.io/Theirs", "pending", corev1.TaintEffectNoSchedule).BootstrapOnly().Obj()
	theirs.Finalizers = []string{v1alpha1.Served().Finalizer}
	cluster.Must(t, c.Client.Create(ctx, theirs))
	objects, err := kustomize(ctx, "config/own-group")
	cluster.Must(t, err)
	cluster.Must(t, applyTo(ctx, client.WithFieldValidation(c.Client, "Strict"), objects))
	manager, err := c.Binary(ctx, "manager")
	cluster.Must(t, err)
	admin := []string{"--api-group=rules.nodegate.io", "--kubeconfig=" + c.Kubeconfig()}
	out, err := execute(ctx, manager, append(admin, "apply-crd")...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(ContainSubstring("nodereadinessrules.rules.nodegate.io unchanged"), "both CRDs are the same")

	d, err := find[appsv1.Deployment](objects, "Deployment", serviceAccount)
	cluster.Must(t, err)
	args := slices.DeleteFunc(d.Spec.Template.Spec.Containers[0].Args, func(arg string) bool {
		return strings.Contains(arg, "webhook") || strings.Contains(arg, "-address=")
	})
	operator, err := c.StartOperator(ctx, cluster.OperatorOptions{Args: args, Rendered: true})
	cluster.Must(t, err)

	node := build.MakeNode("n").Label("example.com/pool", "workers").
		Taint("readiness.k8s.io/Theirs", "pending", corev1.TaintEffectNoSchedule).
		Annotation("readiness.k8s.io/bootstrap-completed-"+string(theirs.UID), "{}").
		Annotation("readiness.k8s.io/bootstrap-completed-ours", "{}").Obj()
	cluster.Must(t, c.Client.Create(ctx, node))
	ours := build.MakeRule("ours").Selector("example.com/pool", "workers").Condition(conditionType).
		Taint("readiness.k8s.io/Ours", "pending", corev1.TaintEffectNoSchedule).BootstrapOnly().Obj()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ours)
	cluster.Must(t, err)
	rule := &unstructured.Unstructured{Object: content}
	rule.SetAPIVersion("rules.nodegate.io/v1alpha1")
	rule.SetKind("NodeReadinessRule")
	cluster.Must(t, c.Client.Create(ctx, rule))
	taints := func(g Gomega) (out []string) {
		g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		for _, taint := range node.Spec.Taints {
			if strings.HasPrefix(taint.Key, "readiness.k8s.io/") {
				out = append(out, taint.Key)
			}
		}
		return out
	}
	g.Eventually(taints).Should(Equal([]string{"readiness.k8s.io/Theirs", "readiness.k8s.io/Ours"}),
		"a marker of the other controller with the name of the rule completes nothing")
	g.Eventually(func(g Gomega) {
		g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(rule), rule)).To(Succeed())
		g.Expect(rule.GetFinalizers()).To(Equal([]string{"nodegate.io/cleanup-taints"}))
	}).Should(Succeed())

	plugin, err := c.Binary(ctx, "kubectl-nodegate")
	cluster.Must(t, err)
	out, err = execute(ctx, plugin, "status", "-o", "name", "--kubeconfig", c.Kubeconfig())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal("nodereadinessrule.rules.nodegate.io/ours\n"), "the plugin finds the group")

	cluster.Must(t, c.Report(ctx, node.Name, conditionType, true))
	g.Eventually(taints).Should(Equal([]string{"readiness.k8s.io/Theirs"}))
	marker := "nodegate.io/bootstrap-completed-" + string(rule.GetUID())
	g.Expect(node.Annotations).To(HaveKey(marker))

	out, err = execute(ctx, manager, append(admin, "delete-rules", "ours")...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal("nodereadinessrule.rules.nodegate.io/ours deleted\n"))
	g.Expect(operator.Stop()).To(Succeed())
	g.Expect(taints(g)).To(Equal([]string{"readiness.k8s.io/Theirs"}))
	g.Expect(node.Annotations).To(Equal(map[string]string{
		"readiness.k8s.io/bootstrap-completed-" + string(theirs.UID): "{}",
		"readiness.k8s.io/bootstrap-completed-ours":                  "{}",
	}))
	now := &v1alpha1.NodeReadinessRule{}
	cluster.Must(t, c.Client.Get(ctx, client.ObjectKeyFromObject(theirs), now))
	if diff := cmp.Diff(theirs.ObjectMeta, now.ObjectMeta); diff != "" {
		t.Errorf("the other controller's rule has changed:\n%s", diff)
	}
}
