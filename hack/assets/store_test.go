// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
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

func newStore(cache string, given string, obtainers ...obtainer) *store {
	return &store{cache: cache, key: "v1", given: given, obtainers: obtainers, progress: newProgress(io.Discard)}
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
	s := newStore(cache, "", build)
	for range 2 {
		dir, err := s.ensure(t.Context(), controlPlane)
		if err != nil {
			t.Fatal(err)
		}
		if dir != filepath.Join(cache, "v1") || len(missing(dir, controlPlane)) > 0 {
			t.Errorf("directory %s lacks %v", dir, missing(dir, controlPlane))
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
	if _, err := newStore(cache, "", &fakeBuild{fail: broken}).ensure(t.Context(), controlPlane); !errors.Is(err, broken) {
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
	if _, err := newStore(cache, "", &fakeBuild{}).ensure(t.Context(), controlPlane); err != nil {
		t.Fatal(err)
	}
	if got := names(t, cache); !slices.Equal(got, []string{"v1"}) {
		t.Errorf("the cache holds %v", got)
	}
}

func TestAnIncompleteDirectoryIsCompleted(t *testing.T) {
	cache, build := t.TempDir(), &fakeBuild{}
	s := newStore(cache, "", build)
	dir, err := s.ensure(t.Context(), controlPlane)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), nil, 0o755); err != nil { // a disk that ran full
		t.Fatal(err)
	}
	all := append(slices.Clone(controlPlane), nodeBinaries...)
	if _, err := s.ensure(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if want := []string{"kubectl", "kubelet", "kube-proxy"}; !slices.Equal(build.names, want) {
		t.Errorf("built %v, not %v", build.names, want)
	}
	if lacking := missing(dir, all); len(lacking) > 0 {
		t.Errorf("the directory lacks %v", lacking)
	}
}

func TestOfSeveralProcessesOneBuilds(t *testing.T) {
	cache, build := t.TempDir(), &fakeBuild{delay: 300 * time.Millisecond}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := newStore(cache, "", build).ensure(t.Context(), controlPlane); err != nil {
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
	s := newStore(cache, "", &fakeBuild{})
	unlock, err := s.lock(t.Context(), filepath.Join(cache, "v1.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.ensure(ctx, controlPlane); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestGivenBinariesWin(t *testing.T) {
	cache, given, build := t.TempDir(), t.TempDir(), &fakeBuild{}
	give := func(names ...string) {
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(given, name), []byte("given"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := newStore(cache, given, build)

	if dir, err := s.ensure(t.Context(), controlPlane); err != nil || dir != filepath.Join(cache, "v1") {
		t.Errorf("a directory that holds nothing: %s, %v", dir, err)
	}
	build.names = nil

	give("etcd", "kube-apiserver", "kubectl")
	dir, err := s.ensure(t.Context(), controlPlane)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range controlPlane {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want := "built"
		if _, err := os.Stat(filepath.Join(given, name)); err == nil {
			want = "given"
		}
		if string(content) != want {
			t.Errorf("%s is %s, not %s", name, content, want)
		}
	}
	if len(build.names) > 0 {
		t.Errorf("built %v although the cache holds them", build.names)
	}

	fresh := newStore(t.TempDir(), given, build)
	if _, err := fresh.ensure(t.Context(), controlPlane); err != nil {
		t.Fatal(err)
	}
	if want := []string{"kube-controller-manager", "kube-scheduler", "kwok"}; !slices.Equal(build.names, want) {
		t.Errorf("built %v, not %v", build.names, want)
	}

	give(controlPlane...)
	build.names = nil
	if dir, err := fresh.ensure(t.Context(), controlPlane); err != nil || dir != given || build.names != nil {
		t.Errorf("a directory that holds all: %s, %v, built %v", dir, err, build.names)
	}
}

func TestAVersionThatCannotBeObtainedIsAnError(t *testing.T) {
	_, err := newStore(t.TempDir(), "").ensure(t.Context(), []string{"etcd"})
	if err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("error %v", err)
	}
}
