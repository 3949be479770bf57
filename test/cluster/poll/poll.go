// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package poll waits, in tests, for what comes about by itself.
package poll

import (
	"fmt"
	"testing"
	"time"
)

// Limit is for how long something may take that is not measured: the machine may be slow, and busy.
const Limit = 2 * time.Minute

const interval = 20 * time.Millisecond

// Until repeats a check until it returns nil, and fails the test with its last error when Limit is over.
func Until(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := For(Limit, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// For repeats a check until it returns nil, and returns its last error when the limit is over.
func For(limit time.Duration, check func() error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(interval) {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %w", limit, err)
		}
	}
}
