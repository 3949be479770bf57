// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package leaves

import (
	"os/exec"
	"syscall"
	"testing"
)

// TestLeaves starts a process in a group of its own, as envtest starts its servers, and forgets it.
func TestLeaves(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}
