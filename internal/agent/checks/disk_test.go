// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import "testing"

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
