// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"os"
	"path/filepath"
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
	"k8s.io/client-go/rest"

	ruleadmission "github.com/nodegate/nodegate/internal/admission/rule"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// ownNamespace precedes a resource in the namespace of the operator.
const ownNamespace = "its own namespace: "

func TestPermissionsOfTheOperator(t *testing.T) {
	checkPermissions(t, serviceAccount, map[string][]string{
		"nodes":                               {"get", "list", "patch", "watch"},
		"pods":                                {"delete", "list", "watch"},
		"pods/status":                         {"patch"},
		"serviceaccounts node-controller":     {"get"},
		"csinodes.storage.k8s.io":             {"list", "watch"},
		"daemonsets.apps":                     {"list"},
		"resourceslices.resource.k8s.io":      {"list", "watch"},
		rules:                                 {"get", "list", "patch", "watch"},
		rulesStatus:                           {"update"},
		"admissionrules.nodegate.io":          {"create"},
		"admissionrules.nodegate.io nodegate": {"get", "list", "update", "watch"},
		"events.events.k8s.io":                {"create", "patch"},
		"tokenreviews.authentication.k8s.io":  {"create"},
		"subjectaccessreviews.authorization.k8s.io": {"create"},
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
	leaseName      = "operator.nodegate.io"
	rules          = "nodereadinessrules.readiness.node.x-k8s.io"
	rulesStatus    = "nodereadinessrules/status.readiness.node.x-k8s.io"
)

func TestPermissionsOfTheAgents(t *testing.T) {
	withAgents(t)
	checkPermissions(t, agentAccount, map[string][]string{"nodes": {"get", "list", "watch"}, "nodes/status": {"patch"}})
}

// TestWatchOfDaemonSets: the operator knows, and warns the author of a rule, in which namespaces it may watch them.
func TestWatchOfDaemonSets(t *testing.T) {
	g := NewWithT(t)
	as := stolen(t)
	rule := ruleset.Compile(build.MakeRule("r").Selector("a", "b").MaxUnavailable("1").DaemonSets("kube-system").Obj(),
		nil, time.Now())
	c := &ruleadmission.Cluster{Nodes: as, Live: as, Access: as, Namespace: namespace}
	unwatched := func() ([]string, error) {
		facts, err := c.Facts(t.Context(), rule)
		return facts.Unwatched, err
	}
	g.Eventually(unwatched).WithTimeout(cluster.Limit).Should(Equal([]string{"kube-system"}))
	role, err := kustomize(t.Context(), "config/daemonset-evidence")
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range role {
		create(t, o)
	}
	g.Eventually(unwatched).WithTimeout(cluster.Limit).Should(BeEmpty())
}

// checkPermissions compares what a service account may do everywhere, and in the operator's namespace.
func checkPermissions(t *testing.T, account string, want map[string][]string) {
	t.Helper()
	NewWithT(t).Eventually(func() string { // RBAC takes effect a moment after it is written
		return cmp.Diff(want, permissions(t, "system:serviceaccount:"+namespace+":"+account))
	}).WithTimeout(cluster.Limit).Should(BeEmpty(), "-want +got")
}

// permissions returns the verbs that the API server allows a user, by resource and, where a permission is for one
// object only, its name. What every service account may do does not count.
func permissions(t *testing.T, user string) map[string][]string {
	t.Helper()
	everyone := allowed(t, "system:serviceaccount:default:anyone", "default")
	out := allowed(t, user, "default")
	for id, verbs := range allowed(t, user, namespace) {
		if !slices.Equal(verbs, out[id]) {
			out[ownNamespace+id] = verbs
		}
	}
	maps.DeleteFunc(out, func(id string, verbs []string) bool { return slices.Equal(verbs, everyone[id]) })
	return out
}

// allowed is permissions in a namespace.
func allowed(t *testing.T, user, ns string) map[string][]string {
	t.Helper()
	as := rest.CopyConfig(config)
	as.Impersonate.UserName = user
	c, err := clientFor(as)
	cluster.Must(t, err)
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: ns}}
	cluster.Must(t, c.Create(t.Context(), review))
	out := map[string][]string{}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				id := schema.GroupResource{Group: group, Resource: resource}.String()
				names := rule.ResourceNames
				if len(names) == 0 {
					names = []string{""} // all objects
				}
				for _, name := range names {
					key := strings.TrimSpace(id + " " + name)
					out[key] = append(out[key], rule.Verbs...)
				}
			}
		}
	}
	for id, verbs := range out {
		slices.Sort(verbs)
		out[id] = slices.Compact(verbs)
	}
	return out
}

// TestUserRoles: what the roles for people allow.
func TestUserRoles(t *testing.T) {
	read := []string{"get", "list", "watch"}
	for role, want := range map[string]map[string][]string{
		"viewer": {rules: read, rulesStatus: {"get"}},
		"editor": {rules: {"create", "delete", "get", "list", "patch", "update", "watch"}, rulesStatus: {"get"}},
		"admin": {rules: {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			rulesStatus: {"get", "patch", "update"}},
		"plugin-viewer": {rules: read, "nodes": read, "pods": read, "events": read, "daemonsets.apps": read,
			"deployments.apps": read, "csinodes.storage.k8s.io": read, "resourceslices.resource.k8s.io": read,
			"leases.coordination.k8s.io": read, "customresourcedefinitions.apiextensions.k8s.io": read,
			"admissionrules.nodegate.io": {"get", "list"}, "keptendpoints.nodegate.io": {"get", "list"}},
		"plugin-editor": {rules: {"patch"}, "nodes": {"patch"},
			"nodereadinessrules.rules.nodegate.io": {"list"}},
	} {
		name := "nodegate-nodereadinessrule-" + role
		if strings.HasPrefix(role, "plugin-") {
			name = "nodegate-" + role
		}
		bind(t, name, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: role})
		NewWithT(t).Eventually(func() map[string][]string { return permissions(t, role) }).
			WithTimeout(cluster.Limit).ShouldNot(BeEmpty(), "the API server knows of the binding")
		if diff := cmp.Diff(want, permissions(t, role)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", role, diff)
		}
	}
}

// bind binds a cluster role to a subject for the rest of the test.
func bind(t *testing.T, role string, subject rbacv1.Subject) {
	t.Helper()
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	})
}

// TestPageNamesThePolicies: docs/install.md names each policy of config/default.
func TestPageNamesThePolicies(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	cluster.Must(t, err)
	policies := 0
	for _, o := range installed {
		if o.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		if policies++; !strings.Contains(string(page), "`"+o.GetName()+"`") {
			t.Errorf("the page does not name %s", o.GetName())
		}
	}
	if policies < 5 {
		t.Errorf("config/default has %d policies", policies)
	}
}
