// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnotherVersionIsNotTakenFromTheGivenBinaries: KUBEBUILDER_ASSETS, as many users have it set, holds the default
// version. The tests of an older version would all pass against it.
func TestAnotherVersionIsNotTakenFromTheGivenBinaries(t *testing.T) {
	home, given := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("KUBEBUILDER_ASSETS", given)
	cache, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	base, err := readPins(".", "")
	if err != nil {
		t.Fatal(err)
	}
	older, err := readPins(".", "1.32")
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(cache, older.key())
	for _, dir := range []string{given, filepath.Join(cache, base.key()), want} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range controlPlane {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("built"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	prints := func(want string, args ...string) (stderr bytes.Buffer) {
		t.Helper()
		var stdout bytes.Buffer
		if err := run(t.Context(), args, &stdout, &stderr); err != nil {
			t.Fatal(err)
		}
		if stdout.String() != want+"\n" {
			t.Errorf("%q prints %q, not %s", args, stdout.String(), want)
		}
		return stderr
	}
	prints(given)
	prints(want, "-kubernetes=1.32")
	if err := os.Remove(filepath.Join(given, "kwok")); err != nil {
		t.Fatal(err)
	}
	if said := prints(filepath.Join(cache, base.key())); !strings.Contains(said.String(), "lacks kwok") {
		t.Errorf("it says %q", said.String())
	}
}
