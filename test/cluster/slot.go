// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// SlotsEnv names a directory with one file for each test process that may run control planes at the same time. "make
// test" sets it, so that packages that start no server do not wait for those that do. Without it, any number may.
const SlotsEnv = "NODEGATE_SLOTS"

// takeSlot waits until this process may run control planes, which it may until it ends.
// Its child processes may do so, too.
var takeSlot = sync.OnceValue(func() error {
	dir := os.Getenv(SlotsEnv)
	if dir == "" {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%s: %s has no files (%w)", SlotsEnv, dir, err)
	}
	for ; ; time.Sleep(10 * interval) {
		for _, name := range names {
			file, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				return &os.PathError{Op: "open", Path: name, Err: err}
			}
			if syscall.Flock(file, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				return os.Unsetenv(SlotsEnv)
			}
			_ = syscall.Close(file)
		}
	}
})
