// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodegate/nodegate/test/child"
)

func TestIsolated(t *testing.T) {
	if !Isolated(t) {
		return
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if len(links) != 1 || links[0].Flags&net.FlagUp == 0 {
		t.Errorf("links: %+v", links)
	}
	if os.Getpid() != 1 {
		t.Errorf("process %d", os.Getpid())
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, 0) }()
	own, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(own), " "+dir+" ") {
		t.Errorf("it is not mounted:\n%s", own)
	}
}

// callEnv has TestThatIsKilled call this socket and wait for its end.
const callEnv = "TOOLS_TEST_CALL"

func TestThatIsKilled(t *testing.T) {
	if socket := os.Getenv(callEnv); socket != "" {
		if !Isolated(t) {
			return
		}
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	dir, err := os.MkdirTemp("", "killed-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // done with it
	_ = l.SetDeadline(time.Now().Add(time.Minute))
	outside := exec.Command(os.Args[0], "-test.run=^TestThatIsKilled$")
	outside.Env = append(os.Environ(), callEnv+"="+socket, "TMPDIR="+dir)
	if err := child.Start(outside); err != nil {
		t.Fatal(err)
	}
	inside, err := l.Accept()
	if err != nil {
		_ = outside.Process.Kill()
		_ = outside.Wait()
		t.Fatal(err)
	}
	_ = outside.Process.Kill()
	_ = outside.Wait()
	_ = inside.SetDeadline(time.Now().Add(time.Minute))
	if _, err := inside.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // as it is
		t.Errorf("what it started in namespaces goes on: %v", err)
	}
}
