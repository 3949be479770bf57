// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

const (
	// Limit is how long something may take that is not measured: the machine may be slow and busy, and controllers of
	// Kubernetes back off for up to 1000 seconds.
	Limit    = 17 * time.Minute
	interval = 25 * time.Millisecond
)

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually repeats a check until it returns nil. It ends the test with the check's last error after Limit.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := Poll(context.Background(), Limit, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Random returns random numbers, and logs how to have the same ones again.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("TEST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		Must(t, err)
	}
	t.Logf("the same random choices again: TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Poll repeats a check until it returns nil. It returns the check's last error after the limit, or when ctx ends.
func Poll(ctx context.Context, limit time.Duration, check func() error) error {
	deadline := time.After(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", ctx.Err(), err)
		case <-deadline:
			return fmt.Errorf("not within %s: %w", limit, err)
		case <-time.After(interval):
		}
	}
}
