// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestTheOwnGroup runs what config/own-group installs in a cluster in which the default API group belongs to another
// controller, which leads. What that controller wrote stays as it is.
func TestTheOwnGroup(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(cluster.Limit)
	ctx, c := t.Context(), cluster.ForTest(t, cluster.Options{CRD: true})
	theirs := build.MakeRule("theirs").Selector("example.com/pool", "workers").Condition(conditionType).
		Taint("readiness.k8s.io/Theirs", "pending", corev1.TaintEffectNoSchedule).BootstrapOnly().Obj()
	theirs.Finalizers = []string{v1alpha1.Served().Finalizer}
	cluster.Must(t, c.Client.Create(ctx, theirs))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: ruleset.IncumbentLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("incumbent-0"), RenewTime: new(metav1.NowMicro())},
	}
	cluster.Must(t, c.Client.Create(ctx, lease))
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
	lost := whatEachVersionLacks(ctx, t, c, node)
	rule := ruleOf(t, "rules.nodegate.io/v1alpha1", "ours", "Ours")
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

	ready := func(g Gomega, rule *unstructured.Unstructured) string {
		g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(rule), rule)).To(Succeed())
		conditions, _, _ := unstructured.NestedSlice(rule.Object, "status", "conditions")
		for _, one := range conditions {
			if condition, _ := one.(map[string]any); condition["type"] == v1alpha1.ConditionReady {
				return fmt.Sprint(condition["status"], " ", condition["reason"])
			}
		}
		return ""
	}
	besideTheirRules(ctx, t, c, plugin, ready, taints)

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
	g.Eventually(lost).WithArguments(node.ResourceVersion).Should(BeEmpty())
	for former, now := range map[client.Object]client.Object{theirs: &v1alpha1.NodeReadinessRule{},
		lease: &coordinationv1.Lease{}} {
		cluster.Must(t, c.Client.Get(ctx, client.ObjectKeyFromObject(former), now))
		if now.GetResourceVersion() != former.GetResourceVersion() {
			t.Errorf("the other controller's %T has changed: %+v", now, now)
		}
	}
}

// whatEachVersionLacks watches a node. The function that it returns says which versions until one lacked a taint or an
// annotation that the node has now, or that this version has not been seen yet.
func whatEachVersionLacks(ctx context.Context, t *testing.T, c *cluster.Cluster,
	node *corev1.Node) func(until string) string {
	t.Helper()
	var mu sync.Mutex
	seen, lost, had := map[string]bool{}, "", node.DeepCopy() // the caller reads the node again
	_, err := c.Watch(ctx, &corev1.NodeList{}, func(e watch.Event) error {
		now, ok := e.Object.(*corev1.Node)
		if !ok || now.Name != had.Name {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		seen[now.ResourceVersion] = true
		for _, taint := range had.Spec.Taints {
			if strings.HasPrefix(taint.Key, "readiness.k8s.io/") && !slices.Contains(now.Spec.Taints, taint) {
				lost += fmt.Sprintf("version %s lacks the taint %s\n", now.ResourceVersion, taint.ToString())
			}
		}
		for key, value := range had.Annotations {
			if now.Annotations[key] != value {
				lost += fmt.Sprintf("version %s lacks the annotation %s\n", now.ResourceVersion, key)
			}
		}
		return nil
	})
	cluster.Must(t, err)
	return func(until string) string {
		mu.Lock()
		defer mu.Unlock()
		if !seen[until] {
			return fmt.Sprintf("version %s has not been seen", until)
		}
		return lost
	}
}

// ruleOf returns a bootstrap-only rule of an API group.
func ruleOf(t *testing.T, apiVersion, name, taint string) *unstructured.Unstructured {
	t.Helper()
	rule := build.MakeRule(name).Selector("example.com/pool", "workers").Condition(conditionType).
		Taint("readiness.k8s.io/"+taint, "pending", corev1.TaintEffectNoSchedule).BootstrapOnly().Obj()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
	cluster.Must(t, err)
	out := &unstructured.Unstructured{Object: content}
	out.SetAPIVersion(apiVersion)
	out.SetKind("NodeReadinessRule")
	return out
}

// besideTheirRules: a rule with a taint of the other controller's rules is frozen, and its deletion leaves the taint.
// Their CRD changes its version meanwhile.
func besideTheirRules(ctx context.Context, t *testing.T, c *cluster.Cluster, plugin string,
	ready func(Gomega, *unstructured.Unstructured) string, taints func(Gomega) []string) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(cluster.Limit)
	const frozen, inForce, group = "False ForeignRule", "True InForce", "readiness.node.x-k8s.io/"
	copied := ruleOf(t, "rules.nodegate.io/v1alpha1", "copied", "Copied")
	cluster.Must(t, c.Client.Create(ctx, copied))
	g.Eventually(taints).Should(ContainElement("readiness.k8s.io/Copied"))
	itsCopy := ruleOf(t, group+"v1alpha1", "copied", "Copied") // convert --live has not handed it over
	itsCopy.SetAnnotations(map[string]string{v1alpha1.SuccessorAnnotation: string(copied.GetUID())})
	cluster.Must(t, c.Client.Create(ctx, itsCopy))
	cluster.Must(t, c.Client.Delete(ctx, copied))
	g.Eventually(func() error { return c.Client.Get(ctx, client.ObjectKeyFromObject(copied), copied) }).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	g.Expect(taints(g)).NotTo(ContainElement("readiness.k8s.io/Copied"), "the copy is not another controller's")
	cluster.Must(t, c.Client.Delete(ctx, itsCopy))

	rule := ruleOf(t, "rules.nodegate.io/v1alpha1", "shared", "Shared")
	cluster.Must(t, c.Client.Create(ctx, rule))
	all := []string{"readiness.k8s.io/Theirs", "readiness.k8s.io/Ours", "readiness.k8s.io/Shared"}
	g.Eventually(taints).Should(Equal(all))
	g.Eventually(ready).WithArguments(rule).Should(Equal(inForce))
	foreign := ruleOf(t, group+"v1alpha1", "foreign", "Shared")
	cluster.Must(t, c.Client.Create(ctx, foreign))
	g.Eventually(ready).WithArguments(rule).Should(Equal(frozen))

	raw, err := yaml.Marshal(ruleOf(t, "rules.nodegate.io/v1alpha1", "linted", "Theirs").Object)
	cluster.Must(t, err)
	file := filepath.Join(t.TempDir(), "rule.yaml")
	cluster.Must(t, os.WriteFile(file, raw, 0o600))
	_, err = execute(ctx, plugin, "lint", "--live", "-f", file, "--kubeconfig", c.Kubeconfig())
	g.Expect(err).To(MatchError(ContainSubstring("rule theirs of another controller")))

	edit := func(dryRun bool) {
		cluster.Must(t, unstructured.SetNestedField(foreign.Object, dryRun, "spec", "dryRun"))
		cluster.Must(t, c.Client.Update(ctx, foreign))
	}
	edit(true)
	g.Eventually(ready).WithArguments(rule).Should(Equal(inForce))
	crds := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: "nodereadinessrules.readiness.node.x-k8s.io"}
	served := func(versions ...string) { // the oldest is stored
		cluster.Must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := c.Client.Get(ctx, key, crds); err != nil {
				return err
			}
			second := crds.Spec.Versions[0].DeepCopy()
			second.Name, second.Storage = "v1", false
			crds.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{crds.Spec.Versions[0], *second}
			for i := range crds.Spec.Versions {
				crds.Spec.Versions[i].Served = slices.Contains(versions, crds.Spec.Versions[i].Name)
			}
			return c.Client.Update(ctx, crds)
		}))
	}
	cluster.Must(t, c.Client.Get(ctx, key, crds))
	reports := crds.DeepCopy() // a kind of a later version, which the group prefers then
	reports.ObjectMeta = metav1.ObjectMeta{Name: "nodereadinessreports.readiness.node.x-k8s.io",
		Annotations: crds.Annotations}
	reports.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "nodereadinessreports",
		Kind: "NodeReadinessReport"}
	reports.Spec.Versions[0].Name = "v2"
	cluster.Must(t, c.Client.Create(ctx, reports))
	served("v1")
	foreign.SetAPIVersion(group + "v1")
	g.Eventually(func() error { return c.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign) }).Should(Succeed())
	edit(false)
	g.Eventually(ready).WithArguments(rule).Should(Equal(frozen), "in the new version")
	served("v1alpha1")
	theirs := ruleOf(t, group+"v1alpha1", "theirs", "Theirs")
	g.Eventually(func() error { return c.Client.Get(ctx, client.ObjectKeyFromObject(theirs), theirs) }).Should(Succeed())

	cluster.Must(t, c.Client.Delete(ctx, rule))
	g.Eventually(func() error { return c.Client.Get(ctx, client.ObjectKeyFromObject(rule), rule) }).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	g.Expect(taints(g)).To(Equal(all), "the taint is the other controller's")
	node := &corev1.Node{}
	cluster.Must(t, c.Client.Get(ctx, client.ObjectKey{Name: "n"}, node))
	g.Expect(node.Annotations).NotTo(HaveKey(v1alpha1.RecordAnnotationPrefix + string(rule.GetUID())))
	cluster.Must(t, cluster.Poll(ctx, cluster.Limit, func() error { // and removed by it
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == "readiness.k8s.io/Shared"
		})
		return c.Client.Update(ctx, node)
	}))
}
