// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fakeBuild writes files instead of building binaries.
type fakeBuild struct {
	calls atomic.Int64
	names []string // of the last call
	fail  error    // after the first file
	delay time.Duration
}

func (f *fakeBuild) obtain(_ context.Context, names []string, dir string) error {
	f.calls.Add(1)
	f.names = names
	time.Sleep(f.delay)
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("built"), 0o755); err != nil {
			return err
		}
		if f.fail != nil {
			return f.fail
		}
	}
	return nil
}

func newStore(cache string, obtainers ...obtainer) *store {
	return &store{dir: filepath.Join(cache, "v1"), obtainers: obtainers, log: log.New(io.Discard, "", 0)}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".lock") {
			found = append(found, e.Name())
		}
	}
	return found
}

func TestASecondCallBuildsNothing(t *testing.T) {
	cache, build := filepath.Join(t.TempDir(), "a", "b"), &fakeBuild{}
	s := newStore(cache, build)
	for range 2 {
		if err := s.ensure(t.Context(), controlPlane); err != nil {
			t.Fatal(err)
		}
		if lacking := missing(s.dir, controlPlane); len(lacking) > 0 {
			t.Errorf("the directory lacks %v", lacking)
		}
	}
	if got := build.calls.Load(); got != 1 {
		t.Errorf("%d builds", got)
	}
	if got := names(t, cache); !slices.Equal(got, []string{"v1"}) {
		t.Errorf("the cache holds %v", got)
	}
}

func TestABuildBrokenOffLeavesNothing(t *testing.T) {
	cache, broken := t.TempDir(), errors.New("broken off")
	if err := newStore(cache, &fakeBuild{fail: broken}).ensure(t.Context(), controlPlane); !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	if got := names(t, cache); len(got) > 0 {
		t.Errorf("the cache holds %v", got)
	}
	// One that was killed could not even clear up.
	killed := filepath.Join(cache, "v1.tmp")
	if err := os.Mkdir(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := newStore(cache, &fakeBuild{}).ensure(t.Context(), controlPlane); err != nil {
		t.Fatal(err)
	}
	if got := names(t, cache); !slices.Equal(got, []string{"v1"}) {
		t.Errorf("the cache holds %v", got)
	}
}

func TestAnIncompleteDirectoryIsCompleted(t *testing.T) {
	cache, build := t.TempDir(), &fakeBuild{}
	s := newStore(cache, build)
	if err := s.ensure(t.Context(), controlPlane); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "kubectl"), nil, 0o755); err != nil { // a disk that ran full
		t.Fatal(err)
	}
	all := append(slices.Clone(controlPlane), nodeBinaries...)
	if err := s.ensure(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if want := []string{"kubectl", "kubelet", "kube-proxy"}; !slices.Equal(build.names, want) {
		t.Errorf("built %v, not %v", build.names, want)
	}
	if lacking := missing(s.dir, all); len(lacking) > 0 {
		t.Errorf("the directory lacks %v", lacking)
	}
}

func TestOfSeveralProcessesOneBuilds(t *testing.T) {
	cache, build := t.TempDir(), &fakeBuild{delay: 300 * time.Millisecond}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := newStore(cache, build).ensure(t.Context(), controlPlane); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := build.calls.Load(); got != 1 {
		t.Errorf("%d builds", got)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	cache := t.TempDir()
	s := newStore(cache, &fakeBuild{})
	unlock, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.ensure(ctx, controlPlane); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestAVersionThatCannotBeObtainedIsAnError(t *testing.T) {
	err := newStore(t.TempDir()).ensure(t.Context(), []string{"etcd"})
	if err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("error %v", err)
	}
}
