// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/cluster"
)

// agents is the namespace of the agents' service accounts, whose requests the API server writes down.
const agents = "agents"

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:` + agents + `"]
- level: None
`

// clusters is the one cluster of all tests that need one.
var clusters = cluster.Shared(func(ctx context.Context) (*cluster.Cluster, error) {
	return cluster.Start(ctx, cluster.Options{AuditPolicy: auditPolicy})
})

func TestMain(m *testing.M) { clusters.Main(m) }

// shared returns the cluster as a test uses it.
func shared(t *testing.T) *cluster.Env {
	t.Helper()
	return cluster.NewEnv(t, clusters.Get(t))
}

// binary is the agent's binary. A test in namespaces of its own finds it in the directory that the environment names.
func binary(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv(cluster.BinEnv); dir != "" {
		return filepath.Join(dir, "agent")
	}
	path, err := shared(t).Binary(t.Context(), "agent")
	cluster.Must(t, err)
	cluster.Must(t, os.Setenv(cluster.BinEnv, filepath.Dir(path)))
	return path
}

// account is the kubeconfig of a service account with these permissions on nodes.
func account(t *testing.T, name string, verbs []string) string {
	t.Helper()
	return shared(t).Account(agents, name,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: verbs},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}})
}

// Permissions on nodes: what the agent's installation grants, and what the fourth seed's role does.
var (
	watching = []string{"get", "list", "watch"}
	getting  = []string{"get", "list"}
)

// newNode creates a node whose kubelet reports its condition Ready.
func newNode(t *testing.T, name, ready string) {
	t.Helper()
	shared(t).Create(build.MakeNode(name).Obj())
	setReady(t, name, ready)
}

// setReady sets the node's condition Ready as a kubelet does.
func setReady(t *testing.T, name, status string) {
	t.Helper()
	reasons := map[string]string{"True": "KubeletReady", "False": "KubeletNotReady"}
	shared(t).SetReady(name, status, reasons[status])
}
