// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package child

import "os/exec"

// Start starts a command. On Linux the kernel kills it when this process ends.
func Start(cmd *exec.Cmd) error { return cmd.Start() }
