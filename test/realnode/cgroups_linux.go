// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"os"
	"path/filepath"
)

const cgroups = "/sys/fs/cgroup"

// makeCgroup makes a cgroup for a node, in each hierarchy, and returns its name.
func makeCgroup(lab, node string) (string, error) {
	name := filepath.Join("/", lab, node)
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil { // version 2
		return name, os.MkdirAll(filepath.Join(cgroups, name), 0o755)
	}
	hierarchies, err := filepath.Glob(filepath.Join(cgroups, "*"))
	if err != nil {
		return "", err
	}
	for _, h := range hierarchies {
		if info, err := os.Stat(h); err != nil || !info.IsDir() {
			continue
		}
		for _, dir := range []string{filepath.Join(h, lab), filepath.Join(h, name)} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return "", err
			}
			if err := fillCpuset(dir); err != nil {
				return "", err
			}
		}
	}
	return name, nil
}

// fillCpuset takes over the parent's processors and memory: a new cpuset has none, and nothing can run in it.
func fillCpuset(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			return nil // another hierarchy
		}
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.clone_children"), []byte("1"), 0o644)
}
