// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodegate/nodegate/test/child"
)

// The program runs itself again, in another role each time; the environment tells which.
const (
	roleVariable = "NODEGATE_LAB_ROLE"
	dirVariable  = "NODEGATE_LAB_DIR"

	roleInit = "init" // PID 1 of the lab
	roleTest = "test" // what the caller is about
	roleNode = "node" // keeps a node's namespaces
)

// Run calls what the caller is about in a lab of its own, and returns its exit code: prepare first, outside, where
// there is a network, with the lab's directory; then, in another process, inside.
func Run(prepare func(dir string) error, inside func(dir string) int) int {
	dir := os.Getenv(dirVariable)
	switch os.Getenv(roleVariable) {
	case roleTest:
		return inside(dir)
	case roleInit:
		return exitCode(beInit())
	case roleNode:
		return exitCode(beNode())
	}
	return exitCode(enter(prepare))
}

// exitError ends a role with the code of another process.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if code := exitError(0); errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	return 1
}

// enter makes the lab, and waits for its end.
func enter(prepare func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "nodegate-lab-")
	if err != nil {
		return err
	}
	release, err := guard(dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := prepare(dir); err != nil {
		return err
	}
	init := again(roleInit, dir)
	init.Stdin = nil
	init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Setpgid:    true, // Ctrl-C is for this process only, which then ends the lab
	}
	if err := child.Start(init); err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		_ = init.Process.Kill()
	}()
	if err := init.Wait(); err != nil {
		return exitError(max(1, init.ProcessState.ExitCode()))
	}
	return nil
}

// again is this program in another role. Its temporary files are in the lab's directory.
func again(role, dir string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir, "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// guardScript waits until the other end of its stdin is closed, and removes what does not end with the namespaces.
// It retries, for what was killed may take a moment to be gone.
const guardScript = `
while read -r _; do :; done
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	for c in /sys/fs/cgroup/*/"$2" /sys/fs/cgroup/"$2"; do
		[ ! -d "$c" ] || find "$c" -depth -type d -exec rmdir {} + 2>/dev/null
	done
	left=
	for c in /sys/fs/cgroup/*/"$2" /sys/fs/cgroup/"$2"; do [ ! -d "$c" ] || left=yes; done
	if [ -z "$left" ] && rm -rf "$1" 2>/dev/null; then exit 0; fi
	sleep 0.5
done
exit 1
`

// guard starts it. release ends it, and waits until all is removed.
func guard(dir string) (release func() error, err error) {
	shell := exec.Command("/bin/sh", "-c", guardScript, "realnode-guard", dir, filepath.Base(dir))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what is sent to our group must not hit it
	shell.Dir = "/"
	pipe, err := shell.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := shell.Start(); err != nil {
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	return func() error {
		if err := errors.Join(pipe.Close(), shell.Wait()); err != nil {
			return fmt.Errorf("removing %s and its cgroups: %w", dir, err)
		}
		return nil
	}, nil
}

// beInit is PID 1 of the lab: it runs the test, and takes the exit codes of all whose parents are gone.
func beInit() error {
	if err := mountLab(); err != nil {
		return err
	}
	test := again(roleTest, os.Getenv(dirVariable))
	if err := child.Start(test); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case pid != test.Process.Pid:
		case status.Signaled():
			return exitError(128 + int(status.Signal()))
		case status.ExitStatus() != 0:
			return exitError(status.ExitStatus())
		default:
			return nil
		}
	}
}

// mountLab gives the lab mounts of its own, and a /proc of its processes.
func mountLab() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return nil
}

// beNode keeps a node's namespaces, after it has made of them what a node looks like.
func beNode() error {
	if err := setUpNode(os.Getenv(dirVariable)); err != nil {
		return fmt.Errorf("setting up a node: %w", err)
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin) // until its owner is gone
	return err
}
