// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes processes whose parents died this process's children. The tests' servers are in process groups of
// their own, so that this is the only way to find those of a test that crashed.
func adoptOrphans() {
	// A kernel that refuses costs the search, not the tests.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// endStrays ends the processes that a finished command left behind, and names them. It gives those that are about to
// end, such as the go command's own helpers, the patience to do so.
func endStrays(patience time.Duration) (names []string) {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil {
				return names // no child is left
			} else if pid == 0 {
				break // all are alive
			}
		}
		if time.Now().Before(deadline) {
			continue
		}
		// The children of these are adopted in turn, and found in the next round.
		lists, _ := filepath.Glob("/proc/self/task/*/children")
		for _, list := range lists {
			content, _ := os.ReadFile(list)
			for field := range bytes.FieldsSeq(content) {
				pid, _ := strconv.Atoi(string(field))
				command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				command = bytes.TrimSpace(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
				names = append(names, fmt.Sprintf("%.100s (pid %d)", command, pid))
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}
