// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/config"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// Rights on nodes: what the agent's installation grants, what the fourth seed's role does, and none.
var (
	watching = []string{"get", "list", "watch"}
	getting  = []string{"get", "list"}
	nothing  []string
)

// account makes a service account's kubeconfig with these rights on nodes, for the time of the test.
func account(t *testing.T, name string, verbs []string) (kubeconfig string) {
	t.Helper()
	c := admin(t).RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "agent-e2e-" + name}}
	if len(verbs) > 0 {
		role.Rules = []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: verbs},
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		}
	}
	if _, err := c.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: agents}},
	}
	if _, err := c.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.ClusterRoleBindings().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
		_ = c.ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
	})
	kubeconfig, err := sharedCluster(t).KubeconfigFor(accountName(name), "system:serviceaccounts", "system:serviceaccounts:"+agents)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func accountName(name string) string { return "system:serviceaccount:" + agents + ":" + name }

// newNode creates a node that is deleted when the test ends.
func newNode(t *testing.T, name string) {
	t.Helper()
	nodes := admin(t).CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), build.MakeNode(name).Obj(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// setReady reports the node's condition Ready as a kubelet does.
func setReady(t *testing.T, name, status, reason string) {
	t.Helper()
	patch(t, name, fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q}]}}`, status, reason), "status")
}

// condition waits until the node has a condition with this status and reason.
func condition(t *testing.T, node, conditionType, status, reason string) {
	t.Helper()
	cluster.Eventually(t, "the condition "+conditionType, func() error {
		n, err := admin(t).CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if string(c.Type) == conditionType && string(c.Status) == status && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("%+v", n.Status.Conditions)
	})
}

// newRules writes the configuration of an agent and returns its path.
func newRules(t *testing.T, rules ...config.Rule) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), config.Key)
	writeRules(t, path, rules...)
	return path
}

// writeRules replaces a configuration in one step. Its rules match all nodes.
func writeRules(t *testing.T, path string, rules ...config.Rule) {
	t.Helper()
	for i := range rules {
		rules[i].NodeSelector.MatchExpressions = []v1alpha1.NodeSelectorRequirement{
			{Key: "example.com/absent", Operator: "DoesNotExist"},
		}
	}
	file := config.File{APIVersion: config.APIVersion, Kind: config.Kind, Rules: rules}
	raw, err := file.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func patch(t *testing.T, name, patch string, subresources ...string) {
	t.Helper()
	_, err := admin(t).CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
}
