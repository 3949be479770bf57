// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
