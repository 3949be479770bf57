// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/needs"
)

var writing = &v1alpha1.FilesystemCheck{WriteTest: true}

func TestAnErrorOfExt4(t *testing.T) {
	mkfs := needs.Command(t, "mkfs.ext4", "e2fsprogs")
	if !needs.Isolated(t) {
		return
	}
	root := t.TempDir()
	device := needs.Loop(t, filepath.Join(root, "var/lib/kubelet"), 16<<20, "ext4", mkfs, "-q", "-e", "remount-ro")
	env := Environment{HostRoot: root}
	table, written := FilesystemRO(env, nil, 0), FilesystemRO(env, writing, 1)
	finds(t, table, "")
	if o := finds(t, written, ""); o.FailOpen != "" {
		t.Errorf("got %+v", o)
	}
	trigger := "/sys/fs/ext4/" + device + "/trigger_fs_error"
	if err := os.WriteFile(trigger, []byte("1"), 0o600); err != nil {
		needs.Missing(t, fmt.Sprintf("ext4 cannot be made to fail (%v)", err))
	}
	finds(t, table, "read-only: /var/lib/kubelet")
	finds(t, FilesystemRO(env, nil, 0), "read-only: /var/lib/kubelet") // an agent that starts only now sees it, too
	finds(t, written, "cannot be written to: /var/lib/kubelet: read-only file system")
}

func TestAShutdownOfXFS(t *testing.T) {
	mkfs, io := needs.Command(t, "mkfs.xfs", "xfsprogs"), needs.Command(t, "xfs_io", "xfsprogs")
	if !needs.Isolated(t) {
		return
	}
	root := t.TempDir()
	needs.Loop(t, filepath.Join(root, "var/lib/containerd"), 320<<20, "xfs", mkfs, "-q")
	needs.Loop(t, filepath.Join(root, "data"), 320<<20, "xfs", mkfs, "-q")
	env := Environment{HostRoot: root}
	table, written := FilesystemRO(env, nil, 0), FilesystemRO(env, writing, 1)
	finds(t, table, "")
	finds(t, written, "")
	command(t, io, "-x", "-c", "shutdown", filepath.Join(root, "data"))
	finds(t, table, "read-only: /data")
	command(t, io, "-x", "-c", "shutdown", filepath.Join(root, "var/lib/containerd"))
	finds(t, written, "cannot be written to: /var/lib/containerd: input/output error")
}

func TestTheWriteTest(t *testing.T) {
	if !needs.Isolated(t) {
		return
	}
	root := t.TempDir()
	env := Environment{HostRoot: "/nonexistent", WriteRoot: root}
	kubelet := filepath.Join(root, "var/lib/kubelet")
	open := func(want string) {
		t.Helper()
		o := finds(t, FilesystemRO(env, writing, 1), "")
		if !strings.Contains(o.FailOpen, want) || want == "" && o.FailOpen != "" {
			t.Errorf("want %q, got %+v", want, o)
		}
	}
	open("sees none of its directories")
	attach(t, "tmpfs", kubelet, "tmpfs", 0, "size=64k")
	open("")
	if left, err := os.ReadDir(kubelet); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	// A full filesystem is disk_pressure's to judge.
	must(t, os.WriteFile(filepath.Join(kubelet, "full"), make([]byte, 64<<10), 0o600))
	open("/var/lib/kubelet: no space left on device")
	must(t, os.Remove(filepath.Join(kubelet, "full")))
	mountAt(t, "", kubelet, "", unix.MS_REMOUNT|unix.MS_RDONLY, "size=64k")
	finds(t, FilesystemRO(env, writing, 1), "cannot be written to: /var/lib/kubelet: read-only file system")
	finds(t, FilesystemRO(env, nil, 1), "") // it writes only if a rule asks for it
	mountAt(t, "", kubelet, "", unix.MS_REMOUNT, "size=64k")
	open("")

	asAnother(t, func() { // an agent that may not write there cannot judge
		r := (&writeTest{root: root, paths: []string{"/var/lib/kubelet"}}).test()
		if !r.Passed || !strings.Contains(r.FailOpen, "permission denied") {
			t.Errorf("a directory of another user: %+v", r)
		}
	})

	// However many ask, it writes once in a period.
	c := FilesystemRO(env, writing, 0)
	finds(t, c, "")
	mountAt(t, "", kubelet, "", unix.MS_REMOUNT|unix.MS_RDONLY, "size=64k")
	for range 10 {
		if o := NewRunner(c).Do(t.Context()); !o.Passed {
			t.Fatalf("it has written again: %+v", o)
		}
	}
}

// TestTheWriteTestWhereTheAgentMayNotWrite: a mount that is read-only, or missing, only in the agent's container says
// nothing about the node's disk.
func TestTheWriteTestWhereTheAgentMayNotWrite(t *testing.T) {
	if !needs.Isolated(t) {
		return
	}
	base := t.TempDir()
	node, host, container := filepath.Join(base, "node"), filepath.Join(base, "host"), filepath.Join(base, "container")
	must(t, os.MkdirAll(filepath.Join(node, "var/lib/kubelet"), 0o700))
	open := func(env Environment, want string) {
		t.Helper()
		if o := finds(t, FilesystemRO(env, writing, 1), ""); !strings.Contains(o.FailOpen, want) {
			t.Errorf("want %q, got %+v", want, o)
		}
	}
	attach(t, node, host, "", unix.MS_BIND, "")
	mountAt(t, "", host, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	open(Environment{HostRoot: host}, "cannot judge: /var/lib/kubelet: the agent's mount is read-only")

	// A container's root filesystem, writable and then not, has the parents of what is mounted in it.
	rancher := "write/var/lib/rancher/k3s"
	must(t, os.MkdirAll(filepath.Join(container, rancher), 0o700))
	attach(t, container, container, "", unix.MS_BIND, "")
	attach(t, "tmpfs", filepath.Join(container, rancher), "tmpfs", 0, "size=64k")
	env := Environment{HostRoot: host, WriteRoot: filepath.Join(container, "write")}
	open(env, "sees none of its directories")
	mountAt(t, "", container, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	open(env, "sees none of its directories")
}

// TestTheWriteTestReachesTheDisk: a write ends in the page cache, also if the disk hangs.
func TestTheWriteTestReachesTheDisk(t *testing.T) {
	paths := []string{t.TempDir()}
	for want, sync := range map[string]func(*os.File) error{
		"":                   (*os.File).Sync,
		"input/output error": func(*os.File) error { return &os.PathError{Op: "sync", Path: "x", Err: unix.EIO} },
	} {
		w := &writeTest{paths: paths, sync: sync}
		if r := w.test(); r.Passed != (want == "") || !strings.Contains(r.Reason, want) {
			t.Errorf("want %q, got %+v", want, r)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		hangs := func(*os.File) error { <-free; return nil }
		w := &writeTest{paths: paths, sync: hangs}
		c := FilesystemRO(Environment{}, writing, 0)
		c.Run = func(context.Context) Result { return w.result() }
		r := NewRunner(c)
		if o := r.Do(t.Context()); o.Passed || o.Reason != "timed out after 5s" {
			t.Errorf("a disk that hangs: %+v", o)
		}
		close(free)
		synctest.Wait()
		if o := r.Do(t.Context()); !o.Passed {
			t.Errorf("a disk that works again: %+v", o)
		}
	})
}

// TestDiskPressureWhereTheAgentMayNotLook: directories such as /var/lib/kubelet/pods are below one of root's.
func TestDiskPressureWhereTheAgentMayNotLook(t *testing.T) {
	root, path := t.TempDir(), "/var/lib/kubelet/pods"
	must(t, os.MkdirAll(filepath.Join(root, path), 0o700))
	c := DiskPressure(Environment{HostRoot: root}, &v1alpha1.DiskCheck{Paths: []string{path},
		MinFreePercent: new(int32(0)), MinFreeInodesPercent: new(int32(0))})
	asAnother(t, func() {
		want := FailedOpen(path + ": permission denied")
		if diff := cmp.Diff(want, c.Run(t.Context())); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// asAnother runs something as a user that may not enter the directories of this process's user. Without its user's ID,
// root is a user like others to the kernel.
func asAnother(t *testing.T, run func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("only root can be another user, this is left out")
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must(t, unix.Setfsuid(65534))
	defer func() { must(t, unix.Setfsuid(0)) }()
	run()
}

// TestLinksOfTheNode: an absolute link of the node leads to the node's files, not to the agent's own.
func TestLinksOfTheNode(t *testing.T) {
	if !needs.Isolated(t) {
		return
	}
	root := t.TempDir()
	for _, dir := range []string{"var/lib", "data/k", "run/containerd"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	for link, to := range map[string]string{"var/lib/kubelet": "/data/k", "var/run": "/run"} {
		must(t, os.Symlink(to, filepath.Join(root, link)))
	}
	attach(t, "tmpfs", filepath.Join(root, "data/k"), "tmpfs", 0, "size=1m")
	finds(t, DiskPressure(Environment{HostRoot: root}, nil), "")
	socket := filepath.Join(root, "run/containerd/containerd.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer func() { _ = unix.Close(fd) }()
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: socket}))
	params := &v1alpha1.ContainerRuntimeCheck{Socket: "/var/run/containerd/containerd.sock"}
	finds(t, ContainerRuntime(root, params), "connection refused") // and not "no socket"
}
