// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestNothingSurvivesAnOwnerThatIsKilled(t *testing.T) {
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"=1")
	owner.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its group is killed, as a test runner does
	var stderr bytes.Buffer
	owner.Stderr = &stderr
	stdout, err := owner.StdoutPipe()
	Must(t, err)
	Must(t, owner.Start())
	var dir string
	pids := make([]int, 4)
	_, err = fmt.Fscan(stdout, &dir, &pids[0], &pids[1], &pids[2], &pids[3])
	if err == nil {
		for _, pid := range pids {
			if gone(pid) == nil {
				err = fmt.Errorf("process %d does not even run", pid)
			}
		}
	}
	_ = syscall.Kill(-owner.Process.Pid, syscall.SIGKILL)
	_ = owner.Wait()
	if err != nil {
		t.Fatalf("the owner did not start its cluster: %v\n%s", err, &stderr)
	}
	Eventually(t, "nothing is left", func() error {
		for _, pid := range pids {
			if err := gone(pid); err != nil {
				return err
			}
		}
		return removed(dir)
	})
}

// Where there is no Pdeathsig the shell alone must do it.
func TestGuardKillsWhatItWasToldOfAndRemovesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster with a space")
	Must(t, os.MkdirAll(filepath.Join(dir, "etcd"), 0o700))
	g, err := newGuard(dir)
	Must(t, err)
	sleep := func() *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		Must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	first, forgotten, last := sleep(), sleep(), sleep()
	for _, cmd := range []*exec.Cmd{first, forgotten, last} {
		g.tell("+", cmd.Process)
	}
	g.forget(forgotten.Process)
	Must(t, g.close())
	for _, cmd := range []*exec.Cmd{first, last} {
		Eventually(t, "the guard has killed it", func() error { return gone(cmd.Process.Pid) })
	}
	if gone(forgotten.Process.Pid) == nil {
		t.Error("a process that the guard was told to forget was killed")
	}
	if err := removed(dir); err != nil {
		t.Error(err)
	}
}
