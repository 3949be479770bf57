// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// permissions tries, with the tokens that kubelet has given the pods, what each service account needs, and what would
// be of use to an attacker who got hold of it.
func permissions(t *testing.T) {
	node, other := lab.Nodes()[0], lab.Nodes()[1]
	agent := tokenOf(t, node, "app.kubernetes.io/component=agent")
	condition := func(n *Node, conditionType string) attempt {
		return patchStatus(n, fmt.Sprintf(`{"status": {"conditions": [{"type": %q, "status": "True", "reason": "Test"}]}}`,
			conditionType))
	}
	where := node
	if kubectl(t, "-n", "nodegate-system", "get", "pods", "-l", "app.kubernetes.io/component=manager", "-o",
		"jsonpath={.items[0].spec.nodeName}") == other.Name {
		where = other
	}
	manager := tokenOf(t, where, "app.kubernetes.io/component=manager")
	for _, tc := range []struct {
		who, token string
		attempt    attempt
		allowed    bool
	}{
		{"agent", agent, run("get", "node", node.Name), true},
		{"agent", agent, condition(node, "example.com/Published"), true}, // agent.conditions names it
		{"agent", agent, condition(node, "example.com/Another"), false},
		{"agent", agent, condition(node, "Ready"), false},
		{"agent", agent, condition(other, "example.com/Published"), false},
		{"agent", agent, patchStatus(node, `{"metadata": {"labels": {"a": "b"}}}`), false},
		{"agent", agent, run("label", "node", node.Name, "a=b"), false},
		{"agent", agent, run("taint", "node", node.Name, "a=b:NoSchedule"), false},
		{"agent", agent, run("delete", "node", other.Name), false},
		{"agent", agent, run("get", "pods", "-A"), false},
		{"agent", agent, run("get", "secrets", "-n", "nodegate-system"), false},
		{"agent", agent, run("get", "nrr"), false},
		{"agent", agent, run("create", "token", "nodegate-manager", "-n", "nodegate-system"), false},
		{"manager", manager, run("get", "nodes"), true},
		{"manager", manager, run("get", "nrr"), true},
		{"manager", manager, run("annotate", "node", node.Name, "example.com/tried=yes"), true},
		{"manager", manager, run("delete", "node", other.Name), false},
		{"manager", manager, run("get", "secrets", "-A"), false},
		{"manager", manager, run("get", "secrets", "-n", "kube-system"), false},
		{"manager", manager, run("create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin", "--user=me"), false},
		{"manager", manager, run("create", "token", "default", "-n", "kube-system"), false},
		{"manager", manager, run("annotate", "serviceaccount", "default", "-n", "nodegate-system", "a=b"), false},
		{"manager", manager, run("create", "namespace", "mine"), false},
		{"manager", manager, run("get", "nodes", "--as=admin"), false},
	} {
		err := tc.attempt.try(t, tc.token)
		refused := err != nil && (strings.Contains(err.Error(), "orbidden") ||
			strings.Contains(err.Error(), "denied request"))
		if tc.allowed && err != nil || !tc.allowed && !refused {
			t.Errorf("%s: %s, allowed: %t: %v", tc.who, tc.attempt.what, tc.allowed, err)
		}
	}
	text := kubectl(t, "get", "node", node.Name, "-o", "yaml")
	for _, stored := range []string{"example.com/Another", "\n    a: b\n"} {
		if strings.Contains(text, stored) {
			t.Errorf("%q is stored on %s", stored, node.Name)
		}
	}
}

// attempt is something that is tried with a token.
type attempt struct {
	what string
	try  func(t *testing.T, token string) error
}

func run(args ...string) attempt {
	return attempt{"kubectl " + strings.Join(args, " "), func(t *testing.T, token string) error {
		t.Helper()
		_, err := as(t, token, args...)
		return err
	}}
}

// patchStatus patches a node's status as the agent does, without reading it before, which kubectl would.
func patchStatus(n *Node, patch string) attempt {
	return attempt{"patching the status of " + n.Name + " with " + patch, func(t *testing.T, token string) error {
		t.Helper()
		cluster := lab.Cluster.Config()
		client, err := kubernetes.NewForConfig(&rest.Config{Host: cluster.Host, BearerToken: token,
			TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CAData}})
		if err != nil {
			return err
		}
		_, err = client.CoreV1().Nodes().Patch(t.Context(), n.Name, types.StrategicMergePatchType, []byte(patch),
			metav1.PatchOptions{}, "status")
		return err
	}}
}

// tokenOf is the token of a pod on a node, as it is mounted there.
func tokenOf(t *testing.T, n *Node, selector string) string {
	t.Helper()
	uid := kubectl(t, "-n", "nodegate-system", "get", "pods", "-l", selector, "--field-selector=spec.nodeName="+n.Name,
		"-o", "jsonpath={.items[0].metadata.uid}")
	out, err := n.Run(t.Context(), "/bin/sh", "-c",
		"cat /var/lib/kubelet/pods/"+uid+"/volumes/kubernetes.io~projected/kube-api-access-*/token")
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
