// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rights tries, with the tokens that kubelet has given the pods, what each service account needs, and what would be of use to
// whoever got hold of it.
func rights(t *testing.T) {
	node, other := lab.Nodes()[0], lab.Nodes()[1]
	agent := tokenOf(t, node, "app.kubernetes.io/component=agent")
	condition := func(n *Node, conditionType string) []string {
		return []string{"patch", "node", n.Name, "--subresource=status", "--type=strategic", "-p",
			fmt.Sprintf(`{"status": {"conditions": [{"type": %q, "status": "True", "reason": "Test"}]}}`, conditionType)}
	}
	manager := tokenOf(t, node, "app.kubernetes.io/component=manager")
	for _, tc := range []struct {
		who, token string
		args       []string
		allowed    bool
	}{
		{"agent", agent, []string{"get", "node", node.Name}, true},
		{"agent", agent, condition(node, "example.com/Published"), true}, // agent.conditions names it
		{"agent", agent, condition(node, "example.com/Another"), false},
		{"agent", agent, condition(node, "Ready"), false},
		{"agent", agent, condition(other, "example.com/Published"), false},
		{"agent", agent, []string{"patch", "node", node.Name, "--subresource=status", "-p", `{"metadata": {"labels": {"a": "b"}}}`}, false},
		{"agent", agent, []string{"label", "node", node.Name, "a=b"}, false},
		{"agent", agent, []string{"taint", "node", node.Name, "a=b:NoSchedule"}, false},
		{"agent", agent, []string{"delete", "node", other.Name}, false},
		{"agent", agent, []string{"get", "pods", "-A"}, false},
		{"agent", agent, []string{"get", "secrets", "-n", "nodegate-system"}, false},
		{"agent", agent, []string{"get", "nrr"}, false},
		{"agent", agent, []string{"create", "token", "nodegate-manager", "-n", "nodegate-system"}, false},
		{"manager", manager, []string{"get", "nodes"}, true},
		{"manager", manager, []string{"get", "nrr"}, true},
		{"manager", manager, []string{"annotate", "node", node.Name, "example.com/tried=yes"}, true},
		{"manager", manager, []string{"delete", "node", other.Name}, false},
		{"manager", manager, []string{"get", "secrets", "-A"}, false},
		{"manager", manager, []string{"get", "secrets", "-n", "kube-system"}, false},
		{"manager", manager, []string{"create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin", "--user=me"}, false},
		{"manager", manager, []string{"create", "token", "default", "-n", "kube-system"}, false},
		{"manager", manager, []string{"create", "namespace", "mine"}, false},
		{"manager", manager, []string{"get", "nodes", "--as=admin"}, false},
		{"manager", manager, []string{"patch", "nrr", "any", "--type=merge", "-p", `{"spec": {"dryRun": true}}`, "--dry-run=server"}, false},
	} {
		out, err := as(t, tc.token, tc.args...)
		refused := strings.Contains(out, "orbidden") || strings.Contains(out, "denied request")
		if tc.allowed && err != nil || !tc.allowed && (err == nil || !refused) {
			t.Errorf("%s: kubectl %s, allowed: %t, says %q (%v)", tc.who, strings.Join(tc.args, " "), tc.allowed, strings.TrimSpace(out), err)
		}
	}
	text := kubectl(t, "get", "node", node.Name, "-o", "yaml")
	for _, stored := range []string{"example.com/Another", "\n    a: b\n"} {
		if strings.Contains(text, stored) {
			t.Errorf("%q is stored on %s", stored, node.Name)
		}
	}
}

// tokenOf is the token of a pod on a node, as it is mounted there.
func tokenOf(t *testing.T, n *Node, selector string) string {
	t.Helper()
	uid := kubectl(t, "-n", "nodegate-system", "get", "pods", "-l", selector, "--field-selector=spec.nodeName="+n.Name, "-o", "jsonpath={.items[0].metadata.uid}")
	out, err := n.Run(t.Context(), "/bin/sh", "-c", "cat /var/lib/kubelet/pods/"+uid+"/volumes/kubernetes.io~projected/kube-api-access-*/token")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// as runs kubectl with a token, and with nothing else that says who it is.
func as(t *testing.T, token string, args ...string) (string, error) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(fill(`apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "SERVER", certificate-authority: CAFILE}}]
users: [{name: pod, user: {token: TOKEN}}]
contexts: [{name: lab, context: {cluster: lab, user: pod}}]
current-context: lab
`, "SERVER", lab.Cluster.Config().Host, "CAFILE", lab.Cluster.CAFile(), "TOKEN", token)), 0o600); err != nil {
		t.Fatal(err)
	}
	return lab.Kubectl(t.Context(), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
}
