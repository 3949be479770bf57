// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// stolen returns a client with the operator's user name.
func stolen(t *testing.T) client.Client {
	t.Helper()
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{UserName: operator}
	as, err := clientFor(c)
	cluster.Must(t, err)
	return as
}

// check reports whether an attempt was refused for a reason, or not refused if the reason is empty.
func check(t *testing.T, err error, refused string) {
	t.Helper()
	switch {
	case refused == "" && err != nil:
		t.Errorf("refused: %v", err)
	case refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refused)):
		t.Errorf("%v, want it refused for %q", err, refused)
	}
}

// TestAStolenTokenAndWebhooks: the operator may change whom the API server trusts, and not what the API server sends,
// or where.
func TestAStolenTokenAndWebhooks(t *testing.T) {
	as := stolen(t)
	const trust = "the operator may change only caBundle and failurePolicy"
	type hook = admissionregistrationv1.ValidatingWebhook
	for name, c := range map[string]struct {
		change  func(*admissionregistrationv1.ValidatingWebhookConfiguration)
		refused string
	}{
		"caBundle": {change: func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			for i := range c.Webhooks {
				c.Webhooks[i].ClientConfig.CABundle = []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
			}
		}},
		"failurePolicy": {change: func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].FailurePolicy = new(admissionregistrationv1.Fail)
		}},
		"rules": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].Rules[0].Resources = []string{"*"}
		}, trust},
		"a URL": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.Service, c.Webhooks[0].ClientConfig.URL = nil, new("https://example.com/")
		}, trust},
		"another Service": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.Service.Namespace = "default"
		}, trust},
		"another port": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.Service.Port = new(int32(444))
		}, trust},
		"a match condition": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[1].MatchConditions = nil
		}, trust},
		"a namespace selector": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[1].NamespaceSelector = nil
		}, trust},
		"a timeout": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].TimeoutSeconds = new(int32(30))
		}, trust},
		"one webhook more": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			more := c.Webhooks[0].DeepCopy()
			more.Name = "more.example.com"
			c.Webhooks = append(c.Webhooks, *more)
		}, trust},
		"one webhook less": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks = c.Webhooks[:1]
		}, trust},
		"another webhook": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[0].Name = "other.example.com"
		}, trust},
		"the order": {change: func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			slices.SortFunc(c.Webhooks, func(a, b hook) int { return strings.Compare(a.Name, b.Name) })
		}},
		"a label": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Labels["a"] = "b"
		}, "metadata"},
		"an owner": {func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{
				APIVersion: "v1", Kind: "Namespace", Name: "default", UID: "u"})
		}, "metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &admissionregistrationv1.ValidatingWebhookConfiguration{}
			cluster.Must(t, kube.Get(t.Context(), client.ObjectKey{Name: webhookName}, o))
			c.change(o)
			check(t, as.Update(t.Context(), o, client.DryRunAll), c.refused)
		})
	}
	t.Run("the webhook that changes nodes", func(t *testing.T) {
		o := &admissionregistrationv1.MutatingWebhookConfiguration{}
		cluster.Must(t, kube.Get(t.Context(), client.ObjectKey{Name: webhookName}, o))
		o.Webhooks[0].Rules[0].Resources = []string{"nodes", "secrets"}
		check(t, as.Update(t.Context(), o, client.DryRunAll), trust)
	})
}

// TestAStolenTokenAndPods: the operator may announce an eviction in the status of pods, and mark them not ready, and
// change nothing else there.
func TestAStolenTokenAndPods(t *testing.T) {
	g := NewWithT(t)
	as := stolen(t)
	pod := build.MakePod("default", "served").Node("served").Obj()
	create(t, pod)
	g.Expect(kube.Status().Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(
		`{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"conditions":[{"type":"Ready","status":"True"}]}}`)))).
		To(Succeed())
	const evicted = `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionGuardEnded"}]}}`
	const only = "only the condition DisruptionTarget"
	for name, c := range map[string]struct{ body, refused string }{
		"an eviction":  {body: evicted},
		"an address":   {`{"status":{"podIP":"10.0.0.2","podIPs":[{"$patch":"replace"},{"ip":"10.0.0.2"}]}}`, only},
		"the phase":    {`{"status":{"phase":"Failed"}}`, only},
		"a lost pod":   {body: `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`},
		"readiness":    {`{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`, only},
		"containers":   {`{"status":{"conditions":[{"type":"ContainersReady","status":"False"}]}}`, only},
		"no readiness": {`{"status":{"conditions":[{"$patch":"delete","type":"Ready"}]}}`, only},
		"a label":      {`{"metadata":{"labels":{"app":"web"}}}`, "metadata"},
		"a note":       {`{"metadata":{"annotations":{"a":"b"}}}`, "metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			err := as.Status().Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(c.body)),
				client.DryRunAll)
			check(t, err, c.refused)
		})
	}
	g.Expect(as.Status().Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType,
		[]byte(evicted)))).To(Succeed())
	check(t, as.Status().Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"$patch":"delete","type":"DisruptionTarget"}]}}`)), client.DryRunAll), only)
}

// TestAStolenTokenAndNodes: the operator may change the taints and annotations of nodes and the finalizers of rules.
// With owner references, a client could have them deleted; with a spec, it could do all that the author of a rule can.
func TestAStolenTokenAndNodes(t *testing.T) {
	g := NewWithT(t)
	as := stolen(t)
	const only = "only taints and annotations of nodes, and finalizers of rules"
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "u"}}
	node := build.MakeNode("owned").Label("a", "b").Obj()
	create(t, node)
	for name, c := range map[string]struct {
		change  func(*corev1.Node)
		refused string
	}{
		"a taint": {change: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "example.com/a", Effect: corev1.TaintEffectNoSchedule}}
		}},
		"no taints":     {change: func(n *corev1.Node) { n.Spec.Taints = nil }},
		"an annotation": {change: func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }},
		"an owner":      {func(n *corev1.Node) { n.OwnerReferences = owners }, only},
		"a finalizer":   {func(n *corev1.Node) { n.Finalizers = []string{"example.com/never"} }, only},
		"a label":       {func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }, only},
		"no label":      {func(n *corev1.Node) { n.Labels = nil }, only},
		"a cordon":      {func(n *corev1.Node) { n.Spec.Unschedulable = true }, only},
		"a provider ID": {func(n *corev1.Node) { n.Spec.ProviderID = "example:///forged" }, only},
	} {
		t.Run("node: "+name, func(t *testing.T) {
			changed := node.DeepCopy()
			c.change(changed)
			check(t, as.Patch(t.Context(), changed, client.MergeFrom(node), client.DryRunAll), c.refused)
		})
	}
	rule := build.MakeRule("owned").Selector("a", "b").Condition("example.com/A").
		Taint("example.com/a", "", corev1.TaintEffectNoSchedule).Obj()
	create(t, rule)
	for name, c := range map[string]struct {
		change  func(*v1alpha1.NodeReadinessRule)
		refused string
	}{
		"a finalizer": {change: func(r *v1alpha1.NodeReadinessRule) { r.Finalizers = []string{"example.com/a"} }},
		"an owner":    {func(r *v1alpha1.NodeReadinessRule) { r.OwnerReferences = owners }, only},
		"a label":     {func(r *v1alpha1.NodeReadinessRule) { r.Labels = map[string]string{"a": "b"} }, only},
		"a spec":      {func(r *v1alpha1.NodeReadinessRule) { r.Spec.Suspend = true }, only},
		"a taint":     {func(r *v1alpha1.NodeReadinessRule) { r.Spec.Taint.Key = "dedicated" }, only},
	} {
		t.Run("rule: "+name, func(t *testing.T) {
			changed := rule.DeepCopy()
			c.change(changed)
			check(t, as.Patch(t.Context(), changed, client.MergeFrom(rule), client.DryRunAll), c.refused)
		})
	}
	g.Expect(as.Patch(t.Context(), rule.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["example.com/a"]}}`)))).To(Succeed())
	g.Expect(kube.Delete(t.Context(), rule)).To(Succeed())
	g.Expect(as.Patch(t.Context(), rule.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
}

// TestKeysOfRules: with ruleKeyPrefixes, the API server refuses rules with other keys, and changes of old ones to them.
func TestKeysOfRules(t *testing.T) {
	all, err := helm(t.Context(), "--set", "ruleKeyPrefixes={example.com/,example.org/}")
	cluster.Must(t, err)
	policy := slices.DeleteFunc(all, func(o object) bool { return !strings.HasSuffix(o.GetName(), "-rule-keys") })
	const refused = "must begin with one of: example.com/, example.org/"
	rule := func(key string) *v1alpha1.NodeReadinessRule {
		return build.MakeRule("keys").Selector("a", "b").Condition("example.com/A").
			Taint(key, "", corev1.TaintEffectNoSchedule).Obj()
	}
	old := rule("dedicated")
	create(t, old)
	t.Cleanup(func() { // the policy is gone: it refuses no rule of another test
		cluster.Must(t, cluster.AwaitPolicies(context.Background(), kube))
	})
	for _, o := range policy {
		create(t, o)
	}
	cluster.Must(t, cluster.AwaitPolicies(t.Context(), kube))
	for _, key := range []string{"example.com/a", "example.org/a"} {
		r := rule(key)
		r.Name = "others"
		check(t, kube.Create(t.Context(), r, client.DryRunAll), "")
		r.Spec.CompletionAnnotation = "dedicated"
		check(t, kube.Create(t.Context(), r, client.DryRunAll), refused)
	}
	forbidden := rule("dedicated")
	forbidden.Name = "others"
	check(t, kube.Create(t.Context(), forbidden, client.DryRunAll), refused)
	for body, refused := range map[string]string{
		`{"metadata":{"finalizers":["example.com/a"]}}`: "", `{"spec":{"suspend":true}}`: "",
		`{"spec":{"taint":{"key":"example.com/a"}}}`: "", `{"spec":{"taint":{"key":"other"}}}`: refused,
	} {
		check(t, kube.Patch(t.Context(), old.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)),
			client.DryRunAll), refused)
	}
}

// TestFailIsForNewNodes: without a replica, failurePolicy Fail keeps nodes from joining. It refuses no change of a
// label, above all not that of the label that lets a node join.
func TestFailIsForNewNodes(t *testing.T) {
	g := NewWithT(t)
	const skip = "node-restriction.kubernetes.io/skip-admission"
	node := build.MakeNode("there").Obj()
	create(t, node)
	set := func(ctx context.Context, policy string) {
		cluster.Must(t, kube.Patch(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: webhookName}}, client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"`+policy+`"}]`))))
	}
	joins := func(ctx context.Context) AsyncAssertion { // the API server follows a moment later
		return g.Eventually(func() error { return kube.Create(ctx, build.MakeNode("new").Obj(), client.DryRunAll) }).
			WithTimeout(cluster.Limit)
	}
	set(t.Context(), "Fail")
	t.Cleanup(func() {
		set(context.Background(), "Ignore")
		joins(context.Background()).Should(Succeed(), "it refuses no node of another test")
	})
	joins(t.Context()).Should(MatchError(ContainSubstring("nodes.webhooks.nodegate.io")))
	create(t, build.MakeNode("let-through").Label(skip, "").Obj())
	for _, label := range []string{"example.com/pool", skip} {
		g.Expect(kube.Patch(t.Context(), node, client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"`+label+`":"a"}}}`)))).To(Succeed(), label)
	}
}

// TestWhoMaySetTheSuccessorAnnotation: a user who may write the rules of one API group only cannot make a rule continue
// another one.
func TestWhoMaySetTheSuccessorAnnotation(t *testing.T) {
	const author, refused = "rule-author", "users who may update NodeReadinessRules of both API groups"
	create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: author}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.Served().Name}, Resources: []string{"nodereadinessrules"}, Verbs: []string{"*"}}}})
	create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: author},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: author},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: author}}})
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{UserName: author}
	as, err := clientFor(c)
	cluster.Must(t, err)
	rule := func(predecessor string) *v1alpha1.NodeReadinessRule {
		r := build.MakeRule("successor").Selector("example.com/pool", "none").Condition(conditionType).
			Taint("readiness.k8s.io/successor", "", corev1.TaintEffectNoSchedule).Obj()
		if predecessor != "" {
			r.Annotations = map[string]string{v1alpha1.SuccessorAnnotation: predecessor}
		}
		return r
	}
	NewWithT(t).Eventually(func() error { return as.Create(t.Context(), rule(""), client.DryRunAll) }).
		WithTimeout(cluster.Limit).Should(Succeed(), "the role is in force")
	check(t, as.Create(t.Context(), rule("u"), client.DryRunAll), refused)
	successor := rule("u")
	create(t, successor) // as an administrator
	successor.Labels = map[string]string{"a": "b"}
	check(t, as.Update(t.Context(), successor.DeepCopy(), client.DryRunAll), "")
	successor.Annotations[v1alpha1.SuccessorAnnotation] = "u2"
	check(t, as.Update(t.Context(), successor.DeepCopy(), client.DryRunAll), refused)
	check(t, kube.Update(t.Context(), successor.DeepCopy(), client.DryRunAll), "")
	delete(successor.Annotations, v1alpha1.SuccessorAnnotation)
	check(t, as.Update(t.Context(), successor, client.DryRunAll), "")
}
