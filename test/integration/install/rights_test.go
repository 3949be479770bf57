// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// verbs are all that RBAC knows for resources, but for those of a few resources of its own.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// TestTheOperatorMayDoNothingElse asks the API server about every verb on every resource that it serves.
func TestTheOperatorMayDoNothingElse(t *testing.T) {
	crds := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	configMaps := schema.GroupResource{Resource: "configmaps"}
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	secrets := schema.GroupResource{Resource: "secrets"}
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	webhooks := func(kind string) schema.GroupResource {
		return schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: kind + "webhookconfigurations"}
	}
	policies := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: resource}
	}
	want := map[string][]string{
		"nodes":                           {"get", "list", "patch", "watch"},
		"pods":                            {"delete", "list", "watch"},
		"pods/status":                     {"patch"},
		"serviceaccounts node-controller": {"get"},
		"csinodes.storage.k8s.io":         {"list", "watch"},
		"daemonsets.apps":                 {"list"},
		"resourceslices.resource.k8s.io":  {"list", "watch"},
		"nodereadinessrules.readiness.node.x-k8s.io":                                                {"get", "list", "patch", "watch"},
		"nodereadinessrules/status.readiness.node.x-k8s.io":                                         {"update"},
		"events.events.k8s.io":                                                                      {"create", "patch"},
		"tokenreviews.authentication.k8s.io":                                                        {"create"},
		"subjectaccessreviews.authorization.k8s.io":                                                 {"create"},
		"its own namespace: configmaps nodegate-agent-config":                                       {"create", "get", "list", "patch", "watch"},
		"its own namespace: events":                                                                 {"create"},
		"its own namespace: serviceaccounts nodegate-agent":                                         {"get", "list", "patch", "watch"},
		"mutatingwebhookconfigurations.admissionregistration.k8s.io":                                {"list", "watch"},
		"validatingwebhookconfigurations.admissionregistration.k8s.io":                              {"list", "watch"},
		"mutatingwebhookconfigurations.admissionregistration.k8s.io nodegate-webhook":               {"list", "update", "watch"},
		"validatingwebhookconfigurations.admissionregistration.k8s.io nodegate-webhook":             {"get", "list", "update", "watch"},
		"mutatingadmissionpolicies.admissionregistration.k8s.io nodegate-node-admission":            {"list", "watch"},
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io nodegate-node-admission":      {"list", "watch"},
		"its own namespace: secrets":                                                                {"list", "watch"},
		"its own namespace: secrets nodegate-webhook-cert":                                          {"get", "list", "update", "watch"},
		"its own namespace: leases.coordination.k8s.io":                                             {"create"},
		"its own namespace: leases.coordination.k8s.io nodegate.readiness.node.x-k8s.io":            {"get", "update"},
		"customresourcedefinitions.apiextensions.k8s.io nodereadinessrules.readiness.node.x-k8s.io": {"get", "list", "watch"},
		// Everybody may ask about themselves.
		"selfsubjectreviews.authentication.k8s.io":      {"create"},
		"selfsubjectaccessreviews.authorization.k8s.io": {"create"},
		"selfsubjectrulesreviews.authorization.k8s.io":  {"create"},
	}
	eventuallyEqual(t, "the operator's rights", want, func() map[string][]string {
		got := map[string][]string{}
		ask := func(id string, a authorizationv1.ResourceAttributes) {
			for _, a.Verb = range verbs {
				if allowed(t, operator, &a) {
					got[id] = append(got[id], a.Verb)
				}
			}
			slices.Sort(got[id])
			if len(got[id]) == 0 {
				delete(got, id)
			}
		}
		for _, r := range resources(t) {
			resource, subresource, _ := strings.Cut(r.Resource, "/")
			a := authorizationv1.ResourceAttributes{Group: r.Group, Resource: resource, Subresource: subresource}
			ask(r.String(), a)
			a.Namespace = namespace
			if id := "its own namespace: " + r.String(); got[r.String()] == nil {
				ask(id, a)
			}
			switch r {
			case crds:
				a.Namespace, a.Name = "", "nodereadinessrules.readiness.node.x-k8s.io"
				ask(r.String()+" "+a.Name, a)
			case webhooks("mutating"), webhooks("validating"):
				a.Namespace, a.Name = "", "nodegate-webhook"
				ask(r.String()+" "+a.Name, a)
			case accounts:
				a.Name = agentAccount
				ask("its own namespace: "+r.String()+" "+a.Name, a)
				a.Namespace, a.Name = "", "node-controller"
				ask(r.String()+" "+a.Name, a)
			case policies("mutatingadmissionpolicies"), policies("mutatingadmissionpolicybindings"):
				a.Namespace, a.Name = "", "nodegate-node-admission"
				ask(r.String()+" "+a.Name, a)
			case secrets:
				a.Name = "nodegate-webhook-cert"
				ask("its own namespace: "+r.String()+" "+a.Name, a)
			case configMaps:
				a.Name = "nodegate-agent-config"
				ask("its own namespace: "+r.String()+" "+a.Name, a)
			case leases:
				a.Name = "nodegate.readiness.node.x-k8s.io"
				ask("its own namespace: "+r.String()+" "+a.Name, a)
			}
		}
		// What is granted for all names of leases is granted for one.
		named := "its own namespace: leases.coordination.k8s.io nodegate.readiness.node.x-k8s.io"
		got[named] = slices.DeleteFunc(got[named], func(v string) bool { return v == "create" })
		return got
	})
}

// eventuallyEqual waits until the rights are what is wanted: for a moment after they are written, the API server's own view of
// them is an older one.
func eventuallyEqual(t *testing.T, what string, want map[string][]string, get func() map[string][]string) {
	t.Helper()
	var diff string
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		if diff = cmp.Diff(want, get()); diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s (-want +got):\n%s", what, diff)
			return
		}
	}
}

// TestTheOperatorIsRefused tries what would do the most harm.
func TestTheOperatorIsRefused(t *testing.T) {
	as := clientAs(t, namespace, serviceAccount)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
	if err := kube.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kube.Delete(t.Context(), node) }()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "refused", Namespace: namespace}}
	rule := &v1alpha1.NodeReadinessRule{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
	for name, attempt := range map[string]func() error{
		"deleting a node":                 func() error { return as.Delete(t.Context(), node.DeepCopy()) },
		"updating a node":                 func() error { return as.Update(t.Context(), node.DeepCopy()) },
		"updating a node's status":        func() error { return as.Status().Update(t.Context(), node.DeepCopy()) },
		"creating a node":                 func() error { return as.Create(t.Context(), node.DeepCopy()) },
		"listing secrets":                 func() error { return as.List(t.Context(), &corev1.SecretList{}) },
		"reading another secret":          func() error { return as.Get(t.Context(), client.ObjectKeyFromObject(secret), secret.DeepCopy()) },
		"creating a secret":               func() error { return as.Create(t.Context(), secret.DeepCopy()) },
		"registering a webhook":           func() error { return as.Create(t.Context(), webhook.DeepCopy()) },
		"changing a webhook of another's": func() error { return as.Update(t.Context(), webhook.DeepCopy()) },
		"reading another ConfigMap of its own namespace": func() error {
			return as.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "kube-root-ca.crt"}, &corev1.ConfigMap{})
		},
		"creating another ConfigMap": func() error {
			return as.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "refused"}})
		},
		"deleting many pods at a time": func() error { return as.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("default")) },
		"reading a pod": func() error {
			return as.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "x"}, &corev1.Pod{})
		},
		"deleting a rule": func() error { return as.Delete(t.Context(), rule.DeepCopy()) },
		"updating a rule": func() error { return as.Update(t.Context(), rule.DeepCopy()) },
		"granting itself more": func() error {
			return as.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "more"}})
		},
	} {
		if err := attempt(); !apierrors.IsForbidden(err) {
			t.Errorf("%s is not forbidden: %v", name, err)
		}
	}
}

// TestUserRoles: what those may do whom the roles for people are bound to.
func TestUserRoles(t *testing.T) {
	read := []string{"get", "list", "watch"}
	write := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	for role, want := range map[string]struct{ rules, status []string }{
		"viewer": {read, []string{"get"}},
		"editor": {write, []string{"get"}},
		"admin":  {verbs, []string{"get", "update", "patch"}},
	} {
		bind(t, "nodegate-nodereadinessrule-"+role, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: role})
		granted := func(subresource string) (out []string) {
			for _, verb := range verbs {
				a := &authorizationv1.ResourceAttributes{Group: v1alpha1.GroupVersion.Group, Resource: "nodereadinessrules", Subresource: subresource, Verb: verb}
				if allowed(t, role, a) {
					out = append(out, verb)
				}
			}
			return out
		}
		// A binding takes a moment.
		eventually := NewWithT(t).Eventually
		eventually(func() []string { return granted("") }).WithTimeout(time.Minute).Should(ConsistOf(want.rules), role)
		eventually(func() []string { return granted("status") }).WithTimeout(time.Minute).Should(ConsistOf(want.status), role)
		if allowed(t, role, &authorizationv1.ResourceAttributes{Resource: "nodes", Verb: "patch"}) {
			t.Errorf("the %s may patch nodes", role)
		}
	}
}

func TestAggregation(t *testing.T) {
	got := map[string]string{}
	for _, o := range installed {
		for label, value := range o.GetLabels() {
			if into, ok := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); ok && value == "true" {
				got[o.GetName()] = into
			}
		}
	}
	want := map[string]string{
		"nodegate-nodereadinessrule-viewer": "view",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// resources are all that the API server serves, subresources included.
func resources(t *testing.T) []schema.GroupResource {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	all := map[schema.GroupResource]bool{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for i := range l.APIResources {
			all[schema.GroupResource{Group: gv.Group, Resource: l.APIResources[i].Name}] = true
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d resources are found", len(all))
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
}

func allowed(t *testing.T, user string, a *authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: a,
	}}
	if strings.HasPrefix(user, "system:serviceaccount:") {
		review.Spec.Groups = append(review.Spec.Groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	if err := kube.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// bind gives a cluster role to somebody for the rest of the test.
func bind(t *testing.T, role string, subject rbacv1.Subject) {
	t.Helper()
	b := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
	if err := kube.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kube.Delete(context.Background(), b) })
}
