// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// setUpNode makes of fresh namespaces a node whose name is that of its directory. What is written to the usual places
// is in that directory.
func setUpNode(dir string) error {
	name := filepath.Base(dir)
	if err := unix.Sethostname([]byte(name)); err != nil {
		return err
	}
	// Shared, for kubelet hands mounts on to pods; a slave first, so that nothing gets out.
	for _, propagation := range []uintptr{unix.MS_SLAVE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("mount propagation: %w", err)
		}
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	for _, path := range []string{"/var/lib", "/var/log"} {
		if err := over(path, filepath.Join(dir, "root", path)); err != nil {
			return err
		}
	}
	for path, content := range nodeFiles(name) {
		if err := fileOver(path, content, filepath.Join(dir, "root", path)); err != nil {
			return err
		}
	}
	return errors.Join(
		// This process is the one that has the node's mounts from its start to its end: its first, for who looks for that.
		bind("/proc/"+strconv.Itoa(os.Getpid()), "/proc/1"),
		os.MkdirAll("/var/lib/kubelet", 0o755), os.MkdirAll("/var/log/pods", 0o755),
		os.MkdirAll("/var/log/containers", 0o755),
		os.MkdirAll("/run/lock", 0o755),
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644),
	)
}

// nodeFiles are files that a node has for itself, by path. Kubelet writes the kernel's parameters: what it would write
// stands in copies of them already, and the machine's are left alone. Names are resolved by a resolver beside the
// control plane; usually there is none, and a lookup fails at once.
func nodeFiles(name string) map[string]string {
	return map[string]string{
		"/proc/sys/kernel/panic":         "10\n",
		"/proc/sys/kernel/panic_on_oops": "1\n",
		"/proc/sys/vm/overcommit_memory": "1\n",
		"/etc/resolv.conf":               "nameserver " + Gateway + "\n",
		"/etc/hosts":                     "127.0.0.1 localhost\n127.0.0.1 " + name + "\n",
	}
}

func over(path, with string) error {
	if err := os.MkdirAll(with, 0o755); err != nil {
		return err
	}
	return bind(with, path)
}

func fileOver(path, content, with string) error {
	if err := os.MkdirAll(filepath.Dir(with), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(with, []byte(content), 0o644); err != nil {
		return err
	}
	return bind(with, path)
}

func bind(source, target string) error {
	// The target may be a link, as /etc/resolv.conf often is.
	if resolved, err := filepath.EvalSymlinks(target); err == nil {
		target = resolved
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting over %s: %w", target, err)
	}
	return nil
}
