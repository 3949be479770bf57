// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Defaults of disk_pressure.
const (
	DefaultDiskPath             = "/var/lib/kubelet"
	DefaultMinFreePercent       = 10
	DefaultMinFreeInodesPercent = 5
)

// usage is how full a filesystem is. A total of 0 means that the filesystem does not count them.
type usage struct {
	bytes, freeBytes   uint64 // like df: without the space reserved for root
	inodes, freeInodes uint64
}

// DiskPressure passes while the filesystem of each path has the minimum share of bytes and inodes free, and is mounted
// where it was first seen. params may be nil.
func DiskPressure(env Environment, params *v1alpha1.DiskCheck) Check {
	params = cmp.Or(params, &v1alpha1.DiskCheck{})
	paths := params.Paths
	if len(paths) == 0 {
		paths = []string{DefaultDiskPath}
	}
	minBytes := ptr.Deref(params.MinFreePercent, DefaultMinFreePercent)
	minInodes := ptr.Deref(params.MinFreeInodesPercent, DefaultMinFreeInodesPercent)
	memory := cmp.Or(env.Mounts, &Mounts{})
	return Check{Name: NameDiskPressure, Run: func(context.Context) Result {
		results := make([]Result, len(paths))
		for i, path := range paths {
			where, err := HostPath(env.HostRoot, path)
			var u usage
			if err == nil {
				err = memory.unmounted(env.HostRoot, path, where)
			}
			if err == nil {
				u, err = statfs(where)
			}
			if err == nil {
				err = u.problem(minBytes, minInodes)
			}
			switch {
			case err == nil:
				results[i] = Pass()
			case errors.Is(err, fs.ErrPermission): // it says nothing about the disk
				results[i] = FailedOpen(fmt.Sprintf("%s: %v", path, err))
			default:
				results[i] = Fail(fmt.Sprintf("%s: %v", path, err))
			}
		}
		return combine(results)
	}}
}

// unmounted returns an error if the filesystem of a path is not mounted any more: the directory below it is then on
// another filesystem. where is the path in this process. A filesystem that is mounted later counts from then on.
func (s *Mounts) unmounted(hostRoot, path, where string) error {
	point, err := mountPoint(cmp.Or(hostRoot, "/"), where)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.points[path]
	if before != "" && before != point && (mount{path: before}).below(strings.TrimSuffix(point, "/")) {
		shown, _ := onNode(before, hostRoot)
		return fmt.Errorf("its filesystem was mounted at %s and is not mounted any more", shown)
	}
	if s.points == nil {
		s.points = map[string]string{}
	}
	s.points[path] = point
	return nil
}

// mountPoint returns the directory at or above a path where its filesystem is mounted: its parent is on another device.
func mountPoint(root, path string) (string, error) {
	device, err := deviceOf(path)
	if err != nil {
		return "", err
	}
	for path = filepath.Clean(path); path != filepath.Clean(root) && path != "/"; path = filepath.Dir(path) {
		if parent, err := deviceOf(filepath.Dir(path)); err != nil || parent != device {
			return path, err
		}
	}
	return path, nil
}

// problem returns an error that says which share is too small.
func (u usage) problem(minBytes, minInodes int32) error {
	if free := share(u.freeBytes, u.bytes); free < float64(minBytes) {
		return fmt.Errorf("%.1f%% of bytes free, %d%% required", free, minBytes)
	}
	if free := share(u.freeInodes, u.inodes); free < float64(minInodes) {
		return fmt.Errorf("%.1f%% of inodes free, %d%% required", free, minInodes)
	}
	return nil
}

// share returns the free share in percent, in floating point: the product of a large filesystem's bytes overflows.
func share(free, total uint64) float64 {
	if total == 0 {
		return 100
	}
	return 100 * float64(free) / float64(total)
}
