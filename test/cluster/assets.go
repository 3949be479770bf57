// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Assets returns the directory of the binaries as hack/assets.sh makes sure of them. It tells on progress how
// far a build is.
func Assets(ctx context.Context, progress io.Writer) (string, error) {
	script, err := assetsScript()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, script)
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, progress
	// The script starts others: what ends it must reach them all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("making sure of the control plane's binaries: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	return lines[len(lines)-1], nil
}

func assetsScript() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		script := filepath.Join(dir, "hack", "assets.sh")
		if _, err := os.Stat(script); err == nil {
			return script, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no hack/assets.sh in the working directory or above it: name the directory of the binaries")
		}
		dir = parent
	}
}
