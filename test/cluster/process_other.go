// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cluster

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// waitStopped waits until SIGSTOP has stopped a child.
func waitStopped(pid int) error {
	for range 100 {
		state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return err
		}
		if strings.HasPrefix(strings.TrimSpace(string(state)), "T") {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("process %d has not stopped", pid)
}
