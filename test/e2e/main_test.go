// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/demo/stage"
)

// stages is the one cluster of all tests that need one.
var stages = cluster.Shared(func(ctx context.Context) (*stage.Stage, error) { return stage.Start(ctx, io.Discard) })

func TestMain(m *testing.M) {
	if address := os.Getenv(endpointEnv); address != "" {
		if err := serveEndpoint(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	stages.Main(m)
}

// sharedCluster is the cluster.
func sharedCluster(t *testing.T) *stage.Stage {
	t.Helper()
	s := stages.Get(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", s.LogTail())
		}
	})
	return s
}

// throughout repeats a check for a while, and fails the test at its first error.
func throughout(t *testing.T, what string, check func() error) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := check(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
