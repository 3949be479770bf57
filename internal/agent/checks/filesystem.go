// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// mountInfo lists the mounts that this process sees; see proc_pid_mountinfo(5). Unlike /proc/mounts, it distinguishes a
// read-only mount from a filesystem that became read-only.
const mountInfo = "/proc/self/mountinfo"

// nodeMountInfo is the same file of the node's first process, below the node's root directory. New mounts of the node
// propagate to the agent's mount namespace, but later changes of them do not.
const nodeMountInfo = "proc/1/mountinfo"

// neverWritten are filesystem types that are read-only, or have no user data.
var neverWritten = []string{
	"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "cramfs", "debugfs", "devpts", "efivarfs", "erofs",
	"fuse.lxcfs", "fusectl", "hugetlbfs", "iso9660", "mqueue", "nsfs", "proc", "pstore", "ramfs", "rpc_pipefs",
	"securityfs", "selinuxfs", "squashfs", "sysfs", "tracefs", "udf",
}

// ofPods are the directories in which container runtimes and the kubelet mount filesystems of single pods.
var ofPods = []string{
	"/run/containerd", "/run/containers", "/run/k0s/containerd", "/run/k3s/containerd", "/run/netns",
	"/var/lib/containerd", "/var/lib/containers/storage", "/var/lib/docker", "/var/lib/k0s/containerd",
	"/var/lib/kubelet/plugins", "/var/lib/kubelet/pods", "/var/lib/rancher/k3s/agent/containerd",
	"/var/lib/rancher/rke2/agent/containerd", "/var/snap/microk8s/common/run/containerd",
	"/var/snap/microk8s/common/var/lib/containerd",
}

// ofPod is the part of the path of a volume that the kubelet mounts for a pod, wherever the kubelet has its directory.
// A UID has 32 hexadecimal digits; that of a static pod has no dashes.
var ofPod = regexp.MustCompile(`/pods/[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}/|/plugins/kubernetes\.io/`)

// ofOnePod reports whether a mount belongs to a single pod.
func (m mount) ofOnePod() bool {
	return slices.ContainsFunc(ofPods, m.below) || ofPod.MatchString(m.path)
}

// mount is one mount of the node.
type mount struct {
	id     int    // unique among current mounts
	path   string // on the node
	kind   string // of filesystem
	device string // its number, as major:minor
	// readOnly is the flag of the mount. failed means that the mount is writable but its filesystem is not, as after an
	// error of the filesystem.
	readOnly, failed bool
}

// FilesystemRO passes unless one of the node's filesystems has become read-only: by the kernel, after an error, or
// since it was first seen. Mounts that were read-only from the start, and mounts of single pods, do not count. If
// params ask for it, FilesystemRO also writes, at most once in each period; 0 means 30 s. params may be nil.
func FilesystemRO(env Environment, params *v1alpha1.FilesystemCheck, period time.Duration) Check {
	params = cmp.Or(params, &v1alpha1.FilesystemCheck{})
	f := &filesystems{
		hostRoot: env.HostRoot, file: mountInfo, ignore: cleanPaths(params.IgnorePaths),
		memory: cmp.Or(env.Mounts, &Mounts{}),
	}
	if !params.WriteTest {
		return Check{Name: NameFilesystem, Run: func(context.Context) Result { return f.look() }}
	}
	paths := slices.DeleteFunc(slices.Clone(writePaths), func(p string) bool { return slices.Contains(f.ignore, p) })
	w := &writeTest{root: cmp.Or(env.WriteRoot, env.HostRoot), paths: paths, period: cmp.Or(period, writePeriod)}
	return Check{Name: NameFilesystem, Timeout: writeTimeout, Run: func(context.Context) Result {
		return combine([]Result{f.look(), w.result()})
	}}
}

// cleanPaths returns the paths as the kernel writes them, such as /data for /data/.
func cleanPaths(paths []string) []string {
	clean := make([]string, len(paths))
	for i, path := range paths {
		clean[i] = filepath.Clean(path)
	}
	return clean
}

type filesystems struct {
	hostRoot, file string
	ignore         []string
	memory         *Mounts
}

// Mounts remembers the first state of each mount. It outlives its checks, which change with their parameters.
type Mounts struct {
	mu     sync.Mutex
	seen   map[string]bool   // by ID and path: whether the mount could be written to when it was first seen
	errors map[string]int    // by device: how many errors its filesystem had when it was first seen
	points map[string]string // by path of disk_pressure: where its filesystem is mounted
}

// RememberMounts remembers the current state of the mounts. If it cannot read them, the first check does.
func RememberMounts(hostRoot string) *Mounts {
	memory := &Mounts{}
	_ = (&filesystems{hostRoot: hostRoot, file: mountInfo, memory: memory}).look()
	return memory
}

func (f *filesystems) look() Result {
	file, hostRoot, err := f.open()
	if err != nil {
		return Fail(err.Error())
	}
	defer func() { _ = file.Close() }()
	mounts, err := parseMountInfo(file, hostRoot)
	if err != nil {
		return Fail(err.Error())
	}
	turned := f.turned(mounts)
	turned = slices.DeleteFunc(turned, func(path string) bool { return slices.Contains(f.ignore, path) })
	if len(turned) > 0 {
		return Fail("read-only: " + strings.Join(turned, ", "))
	}
	return Pass()
}

// open opens the node's mount table, or else that of this process. hostRoot is the node's root directory in it.
func (f *filesystems) open() (file *os.File, hostRoot string, err error) {
	if f.hostRoot != "" {
		if file, err := os.Open(filepath.Join(f.hostRoot, nodeMountInfo)); err == nil {
			return file, "", nil
		}
	}
	file, err = os.Open(f.file)
	return file, f.hostRoot, err
}

// turned remembers the mounts and returns the paths that have become read-only.
func (f *filesystems) turned(mounts []mount) []string {
	s := f.memory
	s.mu.Lock()
	defer s.mu.Unlock()
	now, errs := make(map[string]bool, len(mounts)), map[string]int{}
	var turned []string
	for _, m := range mounts {
		if slices.Contains(neverWritten, m.kind) || m.ofOnePod() {
			continue
		}
		m.failed = m.failed || f.shutDown(m)
		if count, ok := f.errorCount(m); ok {
			before, known := s.errors[m.device]
			if !known {
				before = count
			}
			errs[m.device] = before
			m.failed = m.failed || count > before
		}
		key := fmt.Sprint(m.id, " ", m.path)
		writable, known := s.seen[key]
		if !known {
			writable = !m.readOnly && !m.failed
		}
		now[key] = writable
		if m.failed || m.readOnly && writable {
			turned = append(turned, m.path)
		}
	}
	s.seen, s.errors = now, errs
	slices.Sort(turned)
	return slices.Compact(turned)
}

func (m mount) below(dir string) bool { return m.path == dir || strings.HasPrefix(m.path, dir+"/") }

// parseMountInfo returns the mounts below hostRoot, with their paths on the node.
func parseMountInfo(r io.Reader, hostRoot string) ([]mount, error) {
	table, err := mountinfo.GetMountsFromReader(r, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", mountInfo, err)
	}
	var mounts []mount
	for _, info := range table {
		path, ok := onNode(info.Mountpoint, hostRoot)
		if !ok {
			continue
		}
		m := mount{
			id: info.ID, path: path, kind: info.FSType, device: fmt.Sprintf("%d:%d", info.Major, info.Minor),
			readOnly: hasOption(info.Options, "ro"),
		}
		whole := hasOption(info.VFSOptions, "ro") // the filesystem, not only this mount
		if path == "/" && info.Mountpoint != "/" {
			m.readOnly = whole // the agent always mounts the root directory read-only
		}
		if whole && m.kind == "overlay" && !strings.Contains(info.VFSOptions, "upperdir=") {
			m.readOnly = true // never writable, like the root directory of some immutable systems
		}
		m.failed = whole && !m.readOnly || slices.ContainsFunc(afterErrors, func(option string) bool {
			return hasOption(info.VFSOptions, option)
		})
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// onNode returns the node's path of a path of this process.
func onNode(path, hostRoot string) (string, bool) {
	below, err := filepath.Rel(cmp.Or(hostRoot, "/"), path)
	if err != nil || !filepath.IsLocal(below) {
		return "", false
	}
	return filepath.Join("/", below), true
}

func hasOption(options, option string) bool {
	return slices.Contains(strings.Split(options, ","), option)
}
