// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import "syscall"

func componentAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
