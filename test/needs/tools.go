// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Command returns the path of a command that the test needs, and the Debian package that brings it.
func Command(t testing.TB, name, debianPackage string) string {
	t.Helper()
	path, err := Find(name)
	if err != nil {
		Missing(t, name+", of Debian's package "+debianPackage+", is not installed")
	}
	return path
}

// Find returns the path of a command. For each bin directory on PATH it looks into the sbin directory beside it, too:
// Debian keeps commands of administrators there, which is not on the path of other users.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if err == nil {
			break
		}
		if filepath.Base(dir) == "bin" {
			path, err = exec.LookPath(filepath.Join(filepath.Dir(dir), "sbin", name))
		}
	}
	return path, err
}

// Missing ends a test that cannot run on this machine. It is skipped, and in CI it fails.
func Missing(t testing.TB, what string) {
	t.Helper()
	if InCI() {
		t.Fatalf("%s: with CI=true every test must run", what)
	}
	t.Skipf("%s: with CI=true this fails", what)
}

// InCI reports whether the environment says that every test must run. All that skips tests, or counts those that were
// skipped, asks it.
func InCI() bool {
	ci, err := strconv.ParseBool(os.Getenv("CI"))
	return err == nil && ci
}
