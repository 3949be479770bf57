// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name string
		u    usage
		want string
	}{
		{"exactly the least share suffices", usage{bytes: 1000, freeBytes: 100, inodes: 100, freeInodes: 5}, ""},
		{"a byte less does not", usage{bytes: 1000, freeBytes: 99, inodes: 100, freeInodes: 5},
			"9.9% of bytes free, 10% required"},
		{"an inode less does not", usage{bytes: 1000, freeBytes: 100, inodes: 1000, freeInodes: 49},
			"4.9% of inodes free, 5% required"},
		{"a filesystem that counts no inodes has enough", usage{bytes: 1000, freeBytes: 1000}, ""},
		{"products that would overflow", usage{bytes: 1 << 62, freeBytes: 1 << 61}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.u.problem(10, 5); c.want == "" && got != nil || c.want != "" && (got == nil || got.Error() != c.want) {
				t.Errorf("got %v, want %q", got, c.want)
			}
		})
	}
}

func TestDiskPressureOnARealFilesystem(t *testing.T) {
	dir := t.TempDir()
	params := func(percent int32, paths ...string) *v1alpha1.DiskCheck {
		return &v1alpha1.DiskCheck{Paths: paths, MinimumFreePercent: new(percent), MinimumFreeInodesPercent: new(int32(0))}
	}
	if r := DiskPressure("", params(0, dir)).Run(t.Context()); !r.Passed {
		t.Errorf("no share required: %s", r.Reason)
	}
	if r := DiskPressure(filepath.Dir(dir), params(0, filepath.Base(dir))).Run(t.Context()); !r.Passed {
		t.Errorf("below the host's root: %s", r.Reason)
	}
	r := DiskPressure("", params(0, dir, filepath.Join(dir, "missing"))).Run(t.Context())
	if r.Passed || !strings.Contains(r.Reason, "missing: no such file or directory") {
		t.Errorf("a path that is not there: %+v", r)
	}
}
