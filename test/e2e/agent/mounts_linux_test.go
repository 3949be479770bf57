// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/needs"
)

// TestAMountThatTurnsReadOnlyBeforeAnybodyAsks: what counts is how mounts were when the agent started, not at the first
// question.
func TestAMountThatTurnsReadOnlyBeforeAnybodyAsks(t *testing.T) {
	binary(t)
	if !needs.Isolated(t) {
		return
	}
	root := t.TempDir()
	for _, name := range []string{"data", "meant"} {
		cluster.Must(t, os.Mkdir(filepath.Join(root, name), 0o700))
	}
	mount := func(name string, flags uintptr) {
		t.Helper()
		cluster.Must(t, unix.Mount("tmpfs", filepath.Join(root, name), "tmpfs", flags, "size=1m"))
		t.Cleanup(func() { _ = unix.Unmount(filepath.Join(root, name), unix.MNT_DETACH) })
	}
	mount("data", 0)
	mount("meant", unix.MS_RDONLY)
	p := startAgent(t, "127.0.0.1", "", "/nonexistent", "--host-root", root)
	if err := unix.Mount("", filepath.Join(root, "data"), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY,
		""); err != nil {
		t.Fatal(err)
	}
	if a := p.Health(t, "?check=filesystem_ro"); a.Code != 503 || a.Checks[0].Reason != "read-only: /data" {
		t.Errorf("status %d: %s", a.Code, a.Raw)
	}
}
