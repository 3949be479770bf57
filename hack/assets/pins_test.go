// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestPins(t *testing.T) {
	p, err := readPins(".", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{p.kubernetes, p.etcd, p.kwok, p.digest, runtime.GOOS, runtime.GOARCH} {
		if part == "" || !strings.Contains(p.key(), part) {
			t.Errorf("the key %s lacks %q", p.key(), part)
		}
	}
	stamp := "-X=k8s.io/component-base/version.gitVersion=" + p.kubernetes
	if flags := strings.Join(buildFlags(p), " "); !strings.Contains(flags, stamp) {
		t.Errorf("the flags %s lack %s", flags, stamp)
	}
	for _, name := range slices.Concat(controlPlane, nodeBinaries) {
		if packages[name] == "" {
			t.Errorf("it is not said what %s is built from", name)
		}
	}

	// Another version of anything makes another directory.
	mod, err := os.ReadFile(filepath.Join("controlplane", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.Mkdir(filepath.Join(other, "controlplane"), 0o700); err != nil {
		t.Fatal(err)
	}
	mod = bytes.Replace(mod, []byte("golang.org/x/net v"), []byte("golang.org/x/net v9"), 1)
	if err := os.WriteFile(filepath.Join(other, "controlplane", "go.mod"), mod, 0o600); err != nil {
		t.Fatal(err)
	}
	q, err := readPins(other, "")
	if err != nil {
		t.Fatal(err)
	}
	if p.key() == q.key() {
		t.Errorf("two sets of pins have the key %s", p.key())
	}
}

// TestPinsOfOtherVersions: the modules below kubernetes/ pin the minor version that they are named after.
func TestPinsOfOtherVersions(t *testing.T) {
	base, err := readPins(".", "")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{base.key(): true}
	entries, err := os.ReadDir("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		minor := entry.Name()
		p, err := readPins(".", minor)
		if err != nil {
			t.Fatal(err)
		}
		if !p.is(minor) || base.is(minor) {
			t.Errorf("%s pins %s; the default is %s", minor, p.kubernetes, base.kubernetes)
		}
		if keys[p.key()] {
			t.Errorf("two versions have the key %s", p.key())
		}
		keys[p.key()] = true
	}
	if len(keys) < 2 {
		t.Error("there is no other version")
	}
	if _, err := readPins(".", "1.0"); err == nil {
		t.Error("a version that is not pinned must be an error")
	}
}

func TestASharedBinaryIsLinkedAndNoOther(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, name := range []string{"etcd", "kwok", "kube-apiserver"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte("x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := linker(from).obtain(t.Context(), controlPlane, to); err != nil {
		t.Fatal(err)
	}
	if got := present(to, controlPlane); !slices.Equal(got, shared) {
		t.Errorf("linked %v, want %v", got, shared)
	}
}
