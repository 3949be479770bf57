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
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/nodegate/nodegate/test/localcluster"
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

// shared is the one cluster of all tests that need one, started by the first of them.
var shared = sync.OnceValues(func() (*localcluster.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := localcluster.Start(ctx, localcluster.Options{Assets: os.Getenv("KUBEBUILDER_ASSETS"), AuditPolicy: auditPolicy})
	started = c
	return c, err
})

var started *localcluster.Cluster

// binaryEnv tells a test in namespaces of its own where the agent's binary is.
const binaryEnv = "AGENT_E2E_BINARY"

// built is the agent's binary, built as for its image. It goes with the cluster's directory, also when everything is killed.
var built = sync.OnceValues(func() (string, error) {
	if binary := os.Getenv(binaryEnv); binary != "" {
		return binary, nil
	}
	c, err := shared()
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

func TestMain(m *testing.M) {
	code := m.Run()
	if started != nil {
		if err := started.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func cluster(t *testing.T) *localcluster.Cluster {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func admin(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// limit is for how long something may take that is not measured: the machine may be busy.
const limit = 90 * time.Second

// eventually repeats a check until it returns nil, and fails the test with its last error when time is up.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
