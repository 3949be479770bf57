// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// startLimit is for how long a start may take.
const startLimit = 10 * time.Minute

// Fixture is expensive to start and serves all tests of a package: the first test that needs it starts it, Main stops
// it.
type Fixture[T interface{ Stop() error }] struct {
	once    func() (T, error)
	value   T
	started bool
}

// Shared makes a fixture. A start that fails leaves nothing behind.
func Shared[T interface{ Stop() error }](start func(ctx context.Context) (T, error)) *Fixture[T] {
	f := &Fixture[T]{}
	f.once = sync.OnceValues(func() (T, error) {
		if err := takeSlot(); err != nil { // the wait for it is no part of the start
			return f.value, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		value, err := start(ctx)
		if err == nil {
			f.value, f.started = value, true
		}
		return value, err
	})
	return f
}

// Start returns what the first call has started.
func (f *Fixture[T]) Start() (T, error) { return f.once() }

// Get is Start for a test, which fails if that does.
func (f *Fixture[T]) Get(t testing.TB) T {
	t.Helper()
	value, err := f.once()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Main is what a TestMain does: it runs the tests, stops what they have started, and ends the process. With use it
// starts the fixture before the tests and hands it over.
func (f *Fixture[T]) Main(m *testing.M, use ...func(T)) {
	code := 1
	if err := f.hand(use); err != nil {
		fmt.Fprintln(os.Stderr, "starting what the tests share:", err)
	} else {
		code = m.Run()
	}
	if f.started {
		if err := f.value.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping what the tests share:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func (f *Fixture[T]) hand(use []func(T)) error {
	for _, take := range use {
		value, err := f.once()
		if err != nil {
			return err
		}
		take(value)
	}
	return nil
}
