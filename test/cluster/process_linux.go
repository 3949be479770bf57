// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitStopped waits until SIGSTOP has stopped all threads of a child, or until the child is no more.
func waitStopped(pid int) error {
	for {
		// WNOWAIT, and no WEXITED: nothing is taken from the one that waits for the child's end.
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
