// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"

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
	return cluster.Start(ctx, cluster.Options{Assets: os.Getenv("KUBEBUILDER_ASSETS"), AuditPolicy: auditPolicy})
})

// binaryEnv tells a test in namespaces of its own where the agent's binary is.
const binaryEnv = "AGENT_E2E_BINARY"

// built is the agent's binary, built as for its image. It goes with the cluster's directory, also when everything is killed.
var built = sync.OnceValues(func() (string, error) {
	if binary := os.Getenv(binaryEnv); binary != "" {
		return binary, nil
	}
	c, err := clusters.Start()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(c.Dir(), "agent")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", binary, "github.com/nodegate/nodegate/cmd/agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the agent: %w\n%s", err, out)
	}
	return binary, os.Setenv(binaryEnv, binary)
})

func TestMain(m *testing.M) { clusters.Main(m) }

func binary(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func sharedCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	return clusters.Get(t)
}

func admin(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(sharedCluster(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}
