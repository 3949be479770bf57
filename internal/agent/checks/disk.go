// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"strings"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Defaults of disk_pressure.
const (
	DefaultDiskPath                 = "/var/lib/kubelet"
	DefaultMinimumFreePercent       = 10
	DefaultMinimumFreeInodesPercent = 5
)

// usage is how full a filesystem is. A total of 0 means that the filesystem does not count them.
type usage struct {
	bytes, freeBytes   uint64 // like df: without the space reserved for root
	inodes, freeInodes uint64
}

// DiskPressure passes while the filesystem of each path has the minimum share of bytes and inodes free. hostRoot is
// where the node's root directory is mounted; empty: /. params may be nil.
func DiskPressure(hostRoot string, params *v1alpha1.DiskCheck) Check {
	if params == nil {
		params = &v1alpha1.DiskCheck{}
	}
	paths := params.Paths
	if len(paths) == 0 {
		paths = []string{DefaultDiskPath}
	}
	minBytes := percentOr(params.MinimumFreePercent, DefaultMinimumFreePercent)
	minInodes := percentOr(params.MinimumFreeInodesPercent, DefaultMinimumFreeInodesPercent)
	return Check{Name: NameDiskPressure, Run: func(context.Context) Result {
		var problems []string
		for _, path := range paths {
			where, err := HostPath(hostRoot, path)
			var u usage
			if err == nil {
				u, err = statfs(where)
			}
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", path, err))
				continue
			}
			if p := u.problem(minBytes, minInodes); p != "" {
				problems = append(problems, path+": "+p)
			}
		}
		if len(problems) > 0 {
			return Fail(strings.Join(problems, "; "))
		}
		return Pass()
	}}
}

func percentOr(p *int32, def int32) uint64 {
	if p == nil || *p < 0 {
		return uint64(def) //nolint:gosec // a constant
	}
	return uint64(*p)
}

// problem says which share is too small; empty if none is.
func (u usage) problem(minBytes, minInodes uint64) string {
	if below(u.freeBytes, u.bytes, minBytes) {
		return fmt.Sprintf("%.1f%% of bytes free, %d%% required", share(u.freeBytes, u.bytes), minBytes)
	}
	if below(u.freeInodes, u.inodes, minInodes) {
		return fmt.Sprintf("%.1f%% of inodes free, %d%% required", share(u.freeInodes, u.inodes), minInodes)
	}
	return ""
}

// below compares in floating point: the product of a large filesystem's bytes overflows.
func below(free, total, percent uint64) bool {
	return total > 0 && share(free, total) < float64(percent)
}

func share(free, total uint64) float64 { return 100 * float64(free) / float64(total) }
