// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child starts processes that do not outlive the one that starts them.
package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// forks are made by one thread that lives as long as this process: the kernel kills a child when the thread ends that
// made it.
var forks = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread() // and never unlocked
		for fork := range c {
			fork()
		}
	}()
	return c
})

// Start starts a command that the kernel kills when this process ends, however that happens.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan error)
	forks() <- func() { done <- cmd.Start() }
	return <-done
}
