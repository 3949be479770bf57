// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import "golang.org/x/sys/unix"

// unnamed opens an unnamed file in a directory.
const unnamed = unix.O_TMPFILE

// statfs returns the usage of the filesystem of a path.
func statfs(path string) (usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return usage{}, err
	}
	size := uint64(max(st.Frsize, 0))
	if size == 0 {
		size = uint64(max(st.Bsize, 1))
	}
	used := st.Blocks - min(st.Bfree, st.Blocks)
	return usage{
		bytes: (used + st.Bavail) * size, freeBytes: st.Bavail * size,
		inodes: st.Files, freeInodes: min(st.Ffree, st.Files),
	}, nil
}

// deviceOf returns the number of the device of a path's filesystem.
func deviceOf(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return uint64(st.Dev), err //nolint:unconvert // another type on some architectures
}
