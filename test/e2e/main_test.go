// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/demo/stage"
)

// shared is the one cluster of all tests that need one, started by the first of them.
var shared = sync.OnceValues(func() (*stage.Stage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s, err := stage.Start(ctx, io.Discard)
	started = s
	return s, err
})

var started *stage.Stage

func TestMain(m *testing.M) {
	if address := os.Getenv(endpointEnv); address != "" {
		if err := serveEndpoint(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if started != nil {
		if err := started.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// cluster is the shared cluster.
func cluster(t *testing.T) *stage.Stage {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", s.LogTail())
		}
	})
	return s
}

// eventually repeats a check until it returns nil, and fails the test with its last error when time is up.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	const limit = 2 * time.Minute
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
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
