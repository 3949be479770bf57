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

// ofAdministrators is where Debian puts commands that are not on the path of all users.
var ofAdministrators = []string{"/usr/sbin", "/sbin"}

// Command returns the path of a command that the test needs, and the Debian package that brings it.
func Command(t testing.TB, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	for _, dir := range ofAdministrators {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, name))
	}
	if err != nil {
		Missing(t, name+", of Debian's package "+debianPackage+", is not installed")
	}
	return path
}

// Missing ends a test that cannot run here.
func Missing(t testing.TB, what string) {
	t.Helper()
	if InCI() {
		t.Fatalf("%s: with CI=true every test must run", what)
	}
	t.Skipf("%s: with CI=true that would be a failure", what)
}

// InCI is whether the environment says that nothing may be skipped.
func InCI() bool {
	ci, err := strconv.ParseBool(os.Getenv("CI"))
	return err == nil && ci
}
