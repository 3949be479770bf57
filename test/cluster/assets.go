// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Assets returns the directory of the control plane's binaries: KUBEBUILDER_ASSETS, as "make test" sets it, or what
// hack/assets.sh builds. It reports on progress how far a build is.
func Assets(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, nil
	}
	cmd := exec.CommandContext(ctx, filepath.Join(Root(), "hack", "assets.sh"))
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, progress
	endGroup(cmd)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building the control plane's binaries: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	return lines[len(lines)-1], nil
}

// endGroup makes the end of a command's context reach the processes that it starts.
func endGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
}
