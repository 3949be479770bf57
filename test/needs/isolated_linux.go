// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodegate/nodegate/test/child"
)

// insideEnv names, in the environment of a test that runs in namespaces, that test.
const insideEnv = "NODEGATE_TEST_ISOLATED"

// Isolated runs a test in a process with namespaces of its own for mounts, network and processes, and with the
// permissions of root in them. It returns false outside, when that process has ended, and true inside:
//
//	func TestX(t *testing.T) {
//		if !tools.Isolated(t) {
//			return
//		}
//
// What is mounted, configured, started or written to a temporary directory there is removed with that process, however
// it ends; and it ends with this one. Other files are the same inside and outside. Call it in a test, not in a subtest.
func Isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		if err := furnish(); err != nil {
			t.Fatal(err)
		}
		return true
	}
	dir, err := os.MkdirTemp("", "isolated-") // a test's own directory may be too long for sockets in it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(dir) }()
	cmd := exec.Command(os.Args[0], "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), insideEnv+"="+t.Name(), "TMPDIR="+dir)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if err := child.Start(cmd); err != nil {
		Missing(t, fmt.Sprintf("namespaces cannot be made (%v)", err))
	}
	err = cmd.Wait()
	switch {
	case err != nil:
		t.Errorf("in namespaces of its own: %v\n%s", err, output.String())
	case strings.Contains(output.String(), "--- SKIP: "+t.Name()+" "):
		t.Skip("in namespaces of its own:\n" + output.String())
	case !strings.Contains(output.String(), "--- PASS: "+t.Name()+" "):
		t.Errorf("in namespaces of its own it did not run:\n%s", output.String())
	default:
		t.Log("in namespaces of its own:\n" + output.String())
	}
	return false
}

// furnish makes the namespaces fit to live in.
func furnish() error {
	// Else what is mounted here would be mounted outside as well.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", os.TempDir(), "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", os.TempDir(), err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback); err != nil {
		return fmt.Errorf("setting the loopback link up: %w", err)
	}
	return nil
}
