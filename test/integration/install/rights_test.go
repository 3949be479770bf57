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
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// verbs are all verbs of RBAC for resources, except the special ones of a few resources.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// ownNamespace precedes a resource in the namespace of the operator.
const ownNamespace = "its own namespace: "

// anyone is a service account without a role, in a namespace of its own.
const anyone = "system:serviceaccount:default:anyone"

func TestPermissionsOfTheOperator(t *testing.T) {
	checkPermissions(t, serviceAccount, map[string][]string{
		"nodes":                           {"get", "list", "patch", "watch"},
		"pods":                            {"delete", "list", "watch"},
		"pods/status":                     {"patch"},
		"serviceaccounts node-controller": {"get"},
		"csinodes.storage.k8s.io":         {"list", "watch"},
		"daemonsets.apps":                 {"list"},
		"resourceslices.resource.k8s.io":  {"list", "watch"},
		"nodereadinessrules.readiness.node.x-k8s.io": {"get", "list", "patch",
			"watch"},
		"nodereadinessrules/status.readiness.node.x-k8s.io": {"update"},
		"events.events.k8s.io":                              {"create", "patch"},
		"tokenreviews.authentication.k8s.io":                {"create"},
		"subjectaccessreviews.authorization.k8s.io":         {"create"},
		ownNamespace + "configmaps nodegate-agent-config": {"create", "get", "list",
			"patch", "watch"},
		ownNamespace + "events": {"create"},
		ownNamespace + "serviceaccounts nodegate-agent": {"get", "list", "patch",
			"watch"},
		ownNamespace + "secrets nodegate-webhook-cert": {"create", "get", "list",
			"patch", "watch"},
		ownNamespace + "leases.coordination.k8s.io":              {"create"},
		ownNamespace + "leases.coordination.k8s.io " + leaseName: {"get", "update"},
		"mutatingwebhookconfigurations" + admissionGroup + " " + webhookName: {"get", "list",
			"update", "watch"},
		"validatingwebhookconfigurations" + admissionGroup + " " + webhookName: {"get", "list",
			"update", "watch"},
		"leases.coordination.k8s.io ba65f13e.readiness.node.x-k8s.io":                               {"list"},
		"mutatingadmissionpolicies" + admissionGroup + " nodegate-node-admission":                   {"list", "watch"},
		"mutatingadmissionpolicybindings" + admissionGroup + " nodegate-node-admission":             {"list", "watch"},
		"customresourcedefinitions.apiextensions.k8s.io nodereadinessrules.readiness.node.x-k8s.io": {"get", "list", "watch"},
	})
}

const (
	admissionGroup = ".admissionregistration.k8s.io"
	webhookName    = "nodegate-webhook"
	leaseName      = "nodegate.readiness.node.x-k8s.io"
)

func TestPermissionsOfTheAgents(t *testing.T) {
	withAgents(t)
	checkPermissions(t, agentAccount, map[string][]string{"nodes": {"get", "list", "watch"}, "nodes/status": {"patch"}})
}

// checkPermissions asks the API server about every verb on every resource, without a name and with the names in want.
// With a name, only verbs count that are not allowed without one. What every service account may do does not count.
func checkPermissions(t *testing.T, account string, want map[string][]string) {
	t.Helper()
	user := "system:serviceaccount:" + namespace + ":" + account
	served := resources(t)
	maps.DeleteFunc(want, func(id string, _ []string) bool {
		return strings.HasPrefix(id, "mutatingadmissionpolic") && !control.Has(t, cluster.MutatingAdmissionPolicies) ||
			strings.HasPrefix(id, "resourceslices.") && !control.Has(t, cluster.ResourceSlices)
	})
	var diff string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		got := map[string][]string{}
		ask := func(ns string, r schema.GroupResource, name string) (out []string) {
			resource, subresource, _ := strings.Cut(r.Resource, "/")
			a := authorizationv1.ResourceAttributes{Namespace: ns, Group: r.Group, Resource: resource, Subresource: subresource,
				Name: name}
			for _, a.Verb = range verbs {
				if allowed(t, user, &a) && !allowed(t, anyone, &a) {
					out = append(out, a.Verb)
				}
			}
			slices.Sort(out)
			return out
		}
		for _, r := range served {
			everywhere, own := ask("", r, ""), ask(namespace, r, "")
			if len(everywhere) > 0 {
				got[r.String()] = everywhere
			}
			if !slices.Equal(own, everywhere) {
				got[ownNamespace+r.String()] = own
			}
			for id := range want {
				rest, inOwn := strings.CutPrefix(id, ownNamespace)
				resource, name, named := strings.Cut(rest, " ")
				if !named || resource != r.String() {
					continue
				}
				ns, unnamed := "", everywhere
				if inOwn {
					ns, unnamed = namespace, own
				}
				got[id] = slices.DeleteFunc(ask(ns, r, name), func(v string) bool { return slices.Contains(unnamed, v) })
			}
		}
		if diff = cmp.Diff(want, got); diff == "" {
			return
		} // RBAC takes effect a moment after it is written
	}
	t.Errorf("the permissions of %s (-want +got):\n%s", account, diff)
}

// TestUserRoles: what the roles for people allow.
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
				if allowed(t, role, &authorizationv1.ResourceAttributes{
					Group: v1alpha1.GroupVersion.Group, Resource: "nodereadinessrules", Subresource: subresource, Verb: verb,
				}) {
					out = append(out, verb)
				}
			}
			return out
		}
		eventually := NewWithT(t).Eventually // a binding takes effect a moment later
		eventually(granted).WithArguments("").WithTimeout(cluster.Limit).Should(ConsistOf(want.rules), role)
		eventually(granted).WithArguments("status").WithTimeout(cluster.Limit).Should(ConsistOf(want.status), role)
		if allowed(t, role, &authorizationv1.ResourceAttributes{Resource: "nodes", Verb: "patch"}) {
			t.Errorf("the %s may patch nodes", role)
		}
	}
}

// resources are all resources and subresources that the API server serves.
func resources(t *testing.T) []schema.GroupResource {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	cluster.Must(t, err)
	_, lists, err := d.ServerGroupsAndResources()
	cluster.Must(t, err)
	versions, err := discovery.GroupVersionResources(lists)
	cluster.Must(t, err)
	all := map[schema.GroupResource]bool{}
	for r := range versions {
		all[r.GroupResource()] = true
	}
	if len(all) < 50 {
		t.Fatalf("only %d resources are found", len(all))
	}
	return slices.Collect(maps.Keys(all))
}

func allowed(t *testing.T, user string, a *authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: a,
	}}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		its, _, _ := strings.Cut(account, ":")
		review.Spec.Groups = append(review.Spec.Groups, "system:serviceaccounts", "system:serviceaccounts:"+its)
	}
	cluster.Must(t, kube.Create(t.Context(), review))
	return review.Status.Allowed
}

// bind binds a cluster role to a subject for the rest of the test.
func bind(t *testing.T, role string, subject rbacv1.Subject) {
	t.Helper()
	b := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
	cluster.Must(t, kube.Create(t.Context(), b))
	t.Cleanup(func() { _ = kube.Delete(context.Background(), b) })
}
