// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestTheStatusOfASuccessor: everything stays, and the generations are those of the successor. What belongs to an
// earlier generation belongs to none of the successor's.
func TestTheStatusOfASuccessor(t *testing.T) {
	type object = map[string]any
	status := func(observed, condition, latest, earlier any) object {
		of := func(fields object, name string, generation any) object {
			if generation != nil {
				fields[name] = generation
			}
			return fields
		}
		const at = "2026-11-26T12:00:00Z"
		return of(object{
			"inForce":      object{"startTime": at, "selectorHash": "a"},
			"appliedNodes": []any{"a"},
			"conditions": []any{
				of(object{"type": "Ready", "status": "True"}, "observedGeneration", observed),
				of(object{"type": "NodesReady", "status": "False"}, "observedGeneration", condition),
			},
			"replacements": object{"lastReadyTime": at, "last": []any{
				of(object{"nodeName": "a", "handoverTime": at}, "generation", latest),
				of(object{"nodeName": "b", "handoverTime": at}, "generation", earlier)}},
		}, "observedGeneration", observed)
	}
	rule, successor := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	rule.SetGeneration(7)
	successor.SetGeneration(2)
	rule.Object["status"] = status(int64(7), int64(6), int64(7), int64(6))
	want := status(int64(2), nil, int64(2), int64(0))
	if diff := cmp.Diff(want, statusFor(&predecessor{rule, successor})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	delete(rule.Object, "status")
	if got := statusFor(&predecessor{rule, successor}); got != nil {
		t.Errorf("got %v for a rule without a status", got)
	}
}

// TestTheCopyOfARule: it has what others have written, for its own API group where they have named that. The annotation
// of Argo CD stays: with the former group, Argo CD deletes no copy that its repository does not have.
func TestTheCopyOfARule(t *testing.T) {
	type object = map[string]any
	const tracking = "argocd.argoproj.io/tracking-id"
	applied := func(group string) string {
		return `{"apiVersion":"` + group + `/v1alpha1","kind":"NodeReadinessRule","spec":{"a":"b"}}` + "\n"
	}
	rule := &unstructured.Unstructured{Object: object{
		"apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule",
		"metadata": object{"name": "network", "uid": "u", "finalizers": []any{"a/b"}, "labels": object{"a": "b"},
			"annotations": object{tracking: "app:readiness.node.x-k8s.io/NodeReadinessRule:default/network",
				lastApplied: applied("readiness.node.x-k8s.io")},
			"ownerReferences": []any{
				object{"apiVersion": "example.com/v1", "kind": "Platform", "name": "p", "uid": "p"},
				object{"apiVersion": "readiness.node.x-k8s.io/v1alpha1", "kind": "NodeReadinessRule", "name": "r", "uid": "r"}}},
		"spec": object{"a": "b"}}}
	m := &move{to: v1alpha1.Groups()[1]}
	want := &unstructured.Unstructured{Object: object{
		"apiVersion": "rules.nodegate.io/v1alpha1", "kind": "NodeReadinessRule",
		"metadata": object{"name": "network", "labels": object{"a": "b"},
			"annotations": object{tracking: "app:readiness.node.x-k8s.io/NodeReadinessRule:default/network",
				lastApplied:                  applied("rules.nodegate.io"),
				v1alpha1.SuccessorAnnotation: "u"},
			"ownerReferences": []any{
				object{"apiVersion": "example.com/v1", "kind": "Platform", "name": "p", "uid": "p"}}},
		"spec": object{"a": "b"}}}
	if diff := cmp.Diff(want, m.copyOf(rule)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	rule.SetAnnotations(map[string]string{lastApplied: "{"})
	annotations := map[string]string{v1alpha1.SuccessorAnnotation: "u"}
	if diff := cmp.Diff(annotations, m.copyOf(rule).GetAnnotations()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// meanwhile answers a question, after something has happened.
type meanwhile struct {
	happens func()
	answer  string
}

func (m *meanwhile) Read(p []byte) (int, error) {
	defer GinkgoRecover() // the plugin reads in a goroutine
	answer := m.answer
	if m.answer = ""; answer == "" {
		return 0, io.EOF
	}
	m.happens()
	return copy(p, answer), nil
}

var _ = Describe("convert --live", Ordered, func() {
	const from, to = "readiness.node.x-k8s.io", "rules.nodegate.io"
	var both *cluster.Cluster
	recorded := func() *admissionv1alpha1.AdmissionRules {
		return &admissionv1alpha1.AdmissionRules{ObjectMeta: metav1.ObjectMeta{Name: admissionv1alpha1.Name},
			MarkerPrefix: "readiness.k8s.io/bootstrap-completed-"}
	}
	// convert answers yes after something has happened. Without that, it has no terminal.
	convert := func(ctx context.Context, happens func(), args ...string) (code int, text string) {
		c := calling("")
		if happens != nil {
			c.plugin.asks = func() bool { return true }
			c.plugin.streams.In = &meanwhile{happens, "y\n"}
		}
		code = run(ctx, c.plugin, append([]string{"convert", "--live", "--to", to, "--kubeconfig",
			both.Kubeconfig()}, args...))
		return code, c.err.String()
	}
	// lastly moves the rules, and lets something happen after all of them are copied, before the other group is served.
	lastly := func(ctx context.Context, happens func()) (text string, err error) {
		GinkgoHelper()
		c, err := input.New(ctx, both.Config(), from)
		Expect(err).NotTo(HaveOccurred())
		c.WithWatch = interceptor.NewClient(c.WithWatch, interceptor.Funcs{
			Update: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if _, handsOver := o.(*admissionv1alpha1.AdmissionRules); handsOver {
					happens()
				}
				return api.Update(ctx, o, opts...)
			},
		})
		groups, called := v1alpha1.Groups(), calling("")
		err = (&move{plugin: called.plugin, c: c, from: groups[0], to: groups[1]}).run(ctx)
		return called.err.String(), err
	}
	list := func(ctx context.Context, group string) ([]unstructured.Unstructured, error) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(group + "/" + v1alpha1.Version)
		list.SetKind("NodeReadinessRuleList")
		err := both.Client.List(ctx, list)
		return list.Items, err
	}
	rules := func(ctx context.Context, group string) map[string]*unstructured.Unstructured {
		GinkgoHelper()
		out := map[string]*unstructured.Unstructured{}
		items, err := list(ctx, group)
		Expect(err).NotTo(HaveOccurred())
		for i := range items {
			out[items[i].GetName()] = &items[i]
		}
		return out
	}

	BeforeAll(func(ctx context.Context) {
		both = cluster.ForTest(GinkgoTB(), cluster.Options{CRD: true})
		Expect(v1alpha1.Serve(to)).To(Succeed())
		other, err := crd.Load()
		Expect(v1alpha1.Serve(from)).To(Succeed())
		Expect(err).NotTo(HaveOccurred())
		Expect(both.Client.Create(ctx, other.DeepCopy())).To(Succeed())
		Eventually(func() error { _, err := list(ctx, to); return err }).Should(Succeed())
	})

	BeforeEach(func(ctx context.Context) {
		DeferCleanup(func(ctx context.Context) {
			Expect(v1alpha1.Serve(from)).To(Succeed())
			for _, group := range []string{from, to} {
				for _, rule := range rules(ctx, group) {
					Expect(both.Client.Delete(ctx, rule)).To(Succeed())
				}
			}
			Expect(both.Client.Delete(ctx, recorded())).To(Succeed())
		})
		Expect(both.Client.Create(ctx, recorded())).To(Succeed())
		Expect(both.Client.Create(ctx, network("edited", "edited").Obj())).To(Succeed())
	})

	It("moves the rules as they are when the question is answered", func(ctx context.Context) {
		By("beginning, and being interrupted")
		begun := (&move{to: v1alpha1.Groups()[1]}).copyOf(rules(ctx, from)["edited"])
		Expect(both.Client.Create(ctx, begun)).To(Succeed())
		code, err := convert(ctx, nil)
		Expect(code).To(Equal(1))
		Expect(err).To(HaveSuffix("stdin is not a terminal; pass --yes to confirm\n"), "it has no --dry-run")

		code, err = convert(ctx, func() {
			c := calling("")
			Expect(run(ctx, c.plugin, []string{"pause", "edited", "--yes", "--kubeconfig", both.Kubeconfig()})).To(Equal(0),
				c.err.String())
			Expect(both.Client.Create(ctx, network("late", "late").Obj())).To(Succeed())
		})
		Expect(code).To(Equal(0), err)
		Expect(rules(ctx, from)).To(BeEmpty())
		moved := rules(ctx, to)
		Expect(moved).To(And(HaveLen(2), HaveKey("late")))
		Expect(moved["edited"].GetAnnotations()).To(HaveKey(v1alpha1.PausedAnnotation))
		Expect(moved["edited"].Object["spec"]).To(HaveKeyWithValue("suspend", true))
	})

	It("leaves the fields of a rule to their managers", func(ctx context.Context) {
		apply := func(group string, limited bool) error {
			rule := network("applied", "applied").MaxUnavailable("10%").Obj()
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
			Expect(err).NotTo(HaveOccurred())
			o := &unstructured.Unstructured{Object: map[string]any{"spec": content["spec"]}}
			if !limited {
				unstructured.RemoveNestedField(o.Object, "spec", "maxUnavailable")
				Expect(unstructured.SetNestedField(o.Object, "other", "spec", "taint", "value")).To(Succeed())
			}
			o.SetAPIVersion(group + "/" + v1alpha1.Version)
			o.SetKind("NodeReadinessRule")
			o.SetName(rule.Name)
			o.SetLabels(map[string]string{"applied": "true"})
			return both.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("git"))
		}
		Expect(apply(from, true)).To(Succeed())
		code, text := convert(ctx, nil, "--yes")
		Expect(code).To(Equal(0), text)
		Expect(apply(to, false)).To(Succeed())
		rule := rules(ctx, to)["applied"]
		Expect(rule.Object["spec"]).To(And(Not(HaveKey("maxUnavailable")),
			HaveKeyWithValue("taint", HaveKeyWithValue("value", "other"))))
		Expect(rule.GetAnnotations()).To(HaveKey(v1alpha1.SuccessorAnnotation))
		for _, name := range []string{"applied", "edited"} {
			for _, entry := range rules(ctx, to)[name].GetManagedFields() {
				Expect(entry.Manager).NotTo(Equal("kubectl-nodegate"), name)
			}
		}
	})

	It("names a rule that was created after the last look", func(ctx context.Context) {
		text, err := lastly(ctx, func() {
			Expect(both.Client.Create(ctx, network("late", "late").Obj())).To(Succeed())
		})
		Expect(err).NotTo(HaveOccurred())
		const left = "Nodegate does not apply the rules that are left in the API group " + from + ": late. "
		Expect(text).To(ContainSubstring(left))
		Expect(rules(ctx, from)).To(HaveKey("late"))
		_, text = convert(ctx, nil)
		Expect(text).To(And(ContainSubstring("Nothing to do"), ContainSubstring(left)))
	})

	It("ends well if another user has made the change meanwhile", func(ctx context.Context) {
		code, err := convert(ctx, func() {
			code, err := convert(ctx, nil, "--yes")
			Expect(code).To(Equal(0), err)
		})
		Expect(code).To(Equal(0), err)
		Expect(rules(ctx, to)).To(HaveKey("edited"))
	})

	It("changes nothing if the operator is started meanwhile", func(ctx context.Context) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default", Labels: input.OperatorLabels}}
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: d.Labels}
		d.Spec.Template.Labels = d.Labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "a"}}
		code, err := convert(ctx, func() { Expect(both.Client.Create(ctx, d)).To(Succeed()) })
		Expect(both.Client.Delete(ctx, d)).To(Succeed())
		Expect(code).To(Equal(1))
		Expect(err).To(And(ContainSubstring("the operator must be stopped"), ContainSubstring("run the command again")))
		Expect(rules(ctx, from)).To(HaveKey("edited"))
		Expect(rules(ctx, to)).To(BeEmpty())
	})

	It("names what must be done before a rule that is being deleted is gone", func(ctx context.Context) {
		rule := rules(ctx, from)["edited"]
		rule.SetFinalizers([]string{v1alpha1.FinalizerIn(from)})
		Expect(both.Client.Update(ctx, rule)).To(Succeed())
		Expect(both.Client.Create(ctx, (&move{to: v1alpha1.Groups()[1]}).copyOf(rule))).To(Succeed())
		code, err := convert(ctx, func() { Expect(both.Client.Delete(ctx, rule)).To(Succeed()) })
		rule = rules(ctx, from)["edited"]
		rule.SetFinalizers(nil)
		Expect(both.Client.Update(ctx, rule)).To(Succeed())
		Expect(code).To(Equal(1))
		Expect(err).To(HaveSuffix("error: rule \"edited\" is being deleted: start the operator until it has finished that, " +
			"or run kubectl nodegate cleanup\nThe change of the API group has not ended. Stop the operator when it has " +
			"finished, and run the command again\n"))
	})

	It("deletes no rule that was edited after its copy was made", func(ctx context.Context) {
		_, err := lastly(ctx, func() {
			rule := rules(ctx, from)["edited"]
			Expect(unstructured.SetNestedField(rule.Object, "late", "spec", "taint", "value")).To(Succeed())
			Expect(both.Client.Update(ctx, rule)).To(Succeed())
		})
		Expect(err).To(MatchError(ContainSubstring(`deleting rule "edited" of the API group ` + from +
			": it was edited meanwhile")))
		Expect(rules(ctx, from)).To(HaveKey("edited"))
		_, text := convert(ctx, nil)
		Expect(text).To(ContainSubstring("Their copies in the API group " + to + " differ, and stay as they are. If you " +
			"have edited these rules since they were copied, edit the copies first: edited\n"))
	})

	It("does not say that a rule is deleted that waits for another finalizer", func(ctx context.Context) {
		rule := rules(ctx, from)["edited"]
		rule.SetFinalizers([]string{v1alpha1.FinalizerIn(from), "example.com/other"})
		Expect(both.Client.Update(ctx, rule)).To(Succeed())
		code, err := convert(ctx, nil, "--yes")
		rule = rules(ctx, from)["edited"]
		Expect(rule.GetFinalizers()).To(Equal([]string{"example.com/other"}))
		rule.SetFinalizers(nil)
		Expect(both.Client.Update(ctx, rule)).To(Succeed())
		Expect(code).To(Equal(1))
		Expect(err).To(ContainSubstring(`rule "edited" of the API group ` + from + " is being deleted, and waits for the " +
			"owner of its finalizer example.com/other\nThe change of the API group has not ended."))
	})

	It("names each rule that the other CRD does not allow", func(ctx context.Context) {
		Expect(both.Client.Create(ctx, network("second", "second").Obj())).To(Succeed())
		allow := func(properties *int64) {
			GinkgoHelper()
			definition := &apiextensionsv1.CustomResourceDefinition{}
			Expect(both.Client.Get(ctx, keyOf("nodereadinessrules."+to), definition)).To(Succeed())
			schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
			spec := schema.Properties["spec"]
			spec.MaxProperties = properties
			schema.Properties["spec"] = spec
			Expect(both.Client.Update(ctx, definition)).To(Succeed())
		}
		allow(new(int64(1)))
		Eventually(func() string { _, err := convert(ctx, nil); return err }).Should(And(
			MatchRegexp(`error: copying rule "edited": .*invalid`), MatchRegexp(`\ncopying rule "second": .*invalid`)))
		Expect(rules(ctx, to)).To(BeEmpty())
		allow(nil)
		Eventually(func() string { _, err := convert(ctx, nil); return err }).Should(ContainSubstring("Steps:"))
	})

	It("changes nothing if it cannot know whether an operator runs", func(ctx context.Context) {
		const user = "no-leases"
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"", "apps", "nodegate.io", from, to}, Resources: []string{"*"}, Verbs: []string{"*"}}}}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}}
		Expect(both.Client.Create(ctx, role)).To(Succeed())
		Expect(both.Client.Create(ctx, binding)).To(Succeed())
		Eventually(func() string {
			_, err := convert(ctx, nil, "--yes", "--as", user, "--api-group", from)
			return err
		}).Should(ContainSubstring("listing leases: permission denied: this needs the permissions of cluster-admin"))
		Expect(rules(ctx, to)).To(BeEmpty())
	})

	It("does not believe that the change has begun because the user names the new group", func(ctx context.Context) {
		Expect(both.Client.Delete(ctx, recorded())).To(Succeed())
		code, err := convert(ctx, nil, "--yes", "--api-group", to)
		Expect(code).To(Equal(1), err)
		Expect(err).To(ContainSubstring("set --api-group=" + from + " if the rules there are Nodegate's"))
		code, err = convert(ctx, nil, "--yes", "--api-group", from)
		Expect(code).To(Equal(0), err)
		Expect(rules(ctx, to)).To(HaveKey("edited"))
	})
})
