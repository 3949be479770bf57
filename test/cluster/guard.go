// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/nodegate/nodegate/test/child"
)

// guard makes sure that no process of a cluster outlives its owner, which is the process that uses this package.
// An owner that ends in order stops them itself. For one that is killed there are two means:
//
//   - On Linux the kernel kills each process (child.Start).
//   - Everywhere a shell waits for the end of a pipe that only the owner holds open, and then kills the
//     processes that it was told of and removes the cluster's directory.
type guard struct {
	mu    sync.Mutex
	shell *exec.Cmd
	pipe  io.WriteCloser
}

// guardScript reads "+ PID" and "- PID". It retries the removal because killed processes may still be writing.
const guardScript = `
pids=
while read -r op pid; do
	rest=
	for p in $pids; do [ "$p" = "$pid" ] || rest="$rest $p"; done
	pids=$rest
	[ "$op" = - ] || pids="$pids $pid"
done
[ -z "$pids" ] || kill -9 $pids
[ -z "$1" ] || rm -rf "$1" || { sleep 1; rm -rf "$1"; }
`

// newGuard starts the shell. It removes dir, if that is not empty, when its owner dies.
func newGuard(dir string) (*guard, error) {
	shell := exec.Command("/bin/sh", "-c", guardScript, "localcluster-guard", dir)
	// A group of its own: what is sent to the owner's group (Ctrl-C, a test runner's kill) must not hit it.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Dir = "/"
	pipe, err := shell.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := shell.Start(); err != nil {
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	return &guard{shell: shell, pipe: pipe}, nil
}

// start starts the command under guard, in a process group of its own, so that Ctrl-C reaches only the owner,
// which then stops things in their order.
func (g *guard) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(cmd); err != nil {
		return err
	}
	g.tell("+", cmd.Process)
	return nil
}

// forget is called when a process has ended: another may get its PID.
func (g *guard) forget(p *os.Process) { g.tell("-", p) }

func (g *guard) tell(op string, p *os.Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// It fails only if a user killed the shell. Then only Pdeathsig is left.
	_, _ = fmt.Fprintf(g.pipe, "%s %d\n", op, p.Pid)
}

// close ends the shell. It then kills and removes what is left.
func (g *guard) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.pipe.Close()
	return g.shell.Wait()
}
