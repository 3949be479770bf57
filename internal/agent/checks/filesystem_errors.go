// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
)

// What a kernel does to a filesystem after an error, and how it says so:
//
//	ext4 before 6.12    it turns read-only: "ro" among the superblock's options
//	ext4, 6.12 to 6.14  the options stay "rw", and errors_count in sysfs grows. "ro" only with errors=remount-ro
//	ext4 since 6.15     "emergency_ro", or "shutdown" if it was shut down
//	btrfs, f2fs         it turns read-only: "ro"; newer ones say "shutdown" as well
//	xfs                 it shuts down and says nothing: each system call, also stat, fails with EIO
//
// The write test finds errors that none of these show.

// afterErrors are options of the superblock after an error.
var afterErrors = []string{"emergency_ro", "shutdown"}

// shutDown reports whether an XFS was shut down.
func (f *filesystems) shutDown(m mount) bool {
	if m.kind != "xfs" {
		return false
	}
	path, err := HostPath(f.hostRoot, m.path)
	if err != nil {
		return errors.Is(err, syscall.EIO)
	}
	_, err = os.Lstat(path)
	return errors.Is(err, syscall.EIO)
}

// errorCount returns the number of errors of an ext4 that becomes read-only after an error. The count outlives a
// reboot, so only its growth matters.
func (f *filesystems) errorCount(m mount) (int, bool) {
	if m.kind != "ext4" {
		return 0, false
	}
	link, err := os.Readlink(filepath.Join("/", f.hostRoot, "sys/dev/block", m.device))
	if err != nil {
		return 0, false
	}
	name := filepath.Base(link)
	options, err := os.ReadFile(filepath.Join("/", f.hostRoot, "proc/fs/ext4", name, "options"))
	if err != nil || !strings.Contains(string(options), "errors=remount-ro") {
		return 0, false
	}
	count, err := os.ReadFile(filepath.Join("/", f.hostRoot, "sys/fs/ext4", name, "errors_count"))
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(count)))
	return n, err == nil
}

// writePaths are directories that the kubelet and container runtimes must be able to write to, if the node has them.
var writePaths = []string{
	"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/containers/storage", "/var/lib/docker", "/var/lib/rancher",
}

// writePeriod is the minimum time between two writes if the rule has no periodSeconds.
const writePeriod = 30 * time.Second

// writeTimeout is how long the check may run by default if it writes: a busy disk needs more than a second to sync.
const writeTimeout = 5 * time.Second

// writeTest writes a few bytes to a temporary file in each path.
type writeTest struct {
	root   string // the directory below which the paths are mounted
	paths  []string
	period time.Duration
	sync   func(*os.File) error // nil: (*os.File).Sync

	mu   sync.Mutex
	at   time.Time
	last Result
}

// result returns the last result, and tests again after the period.
func (w *writeTest) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.IsZero() || time.Since(w.at) >= w.period {
		w.last = w.test()
		w.at = time.Now()
	}
	return w.last
}

func (w *writeTest) test() Result {
	var failed, open []string
	found := false
	for _, path := range w.paths {
		err := w.testIn(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EIO):
			failed = append(failed, fmt.Sprintf("%s: %v", path, err))
		case err != nil:
			open = append(open, fmt.Sprintf("%s: %v", path, err))
		}
		found = true
	}
	switch {
	case len(failed) > 0:
		return Fail("cannot be written to: " + strings.Join(failed, ", "))
	case len(open) > 0:
		return FailedOpen("the write test cannot judge: " + strings.Join(open, ", "))
	case !found:
		return FailedOpen("the write test cannot judge: the agent sees none of its directories")
	}
	return Pass()
}

// testIn writes to a directory of the node. A directory that is on no mount of the node does not exist: a container
// has the parents of what is mounted in it. A mount that is read-only, unlike its filesystem, is so only for the agent;
// filesystem_ro sees in the mount table if the node's own is.
func (w *writeTest) testIn(path string) error {
	dir, err := HostPath(w.root, path)
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // the kernel's table has no links
		return reason(err)
	}
	root, err := filepath.EvalSymlinks(cmp.Or(w.root, "/"))
	if err != nil {
		return reason(err)
	}
	above, err := mountinfo.GetMounts(mountinfo.ParentsFilter(dir))
	if err != nil {
		return fmt.Errorf("%s: %w", mountInfo, reason(err))
	}
	on := &mountinfo.Info{}
	for _, m := range above { // of several at one path, the last is on top
		if len(m.Mountpoint) >= len(on.Mountpoint) {
			on = m
		}
	}
	if _, ok := onNode(on.Mountpoint, root); !ok {
		return os.ErrNotExist
	}
	err = w.write(dir)
	if errors.Is(err, syscall.EROFS) && hasOption(on.Options, "ro") && !hasOption(on.VFSOptions, "ro") {
		return errors.New("the agent's mount is read-only")
	}
	return err
}

// write writes to an unnamed file, so that nothing remains if the agent is killed. On a filesystem without unnamed
// files, it removes the file afterwards. Without the sync, the write would end in the page cache, even while the disk
// hangs.
func (w *writeTest) write(dir string) error {
	file, err := os.OpenFile(dir, unnamed|os.O_RDWR, 0o600)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EISDIR) {
		if file, err = os.CreateTemp(dir, ".nodegate-write-test-"); err == nil {
			defer func() { _ = os.Remove(file.Name()) }()
		}
	}
	if err != nil {
		return reason(err)
	}
	sync := w.sync
	if sync == nil {
		sync = (*os.File).Sync
	}
	if _, err = file.WriteString("nodegate\n"); err == nil {
		err = sync(file)
	}
	return reason(errors.Join(err, file.Close()))
}

// reason returns an error without the file's path, which the message around it has.
func reason(err error) error {
	if pathError, ok := errors.AsType[*os.PathError](err); ok {
		return pathError.Err
	}
	return err
}
