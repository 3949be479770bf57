// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// mountInfo is the file of the kernel that lists the mounts this process sees; see proc_pid_mountinfo(5). Unlike
// /proc/mounts it tells a mount that was made read-only from a filesystem that has become so.
const mountInfo = "/proc/self/mountinfo"

// nodeMountInfo is the same file of the node's first process, below the node's root directory. What is mounted there reaches
// the agent's own mounts, but not what becomes of it: a mount that is made read-only later is not so in another namespace.
const nodeMountInfo = "proc/1/mountinfo"

// neverWritten are filesystems that cannot be written to, or not by users.
var neverWritten = []string{
	"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "cramfs", "debugfs", "devpts", "efivarfs", "erofs",
	"fuse.lxcfs", "fusectl", "hugetlbfs", "iso9660", "mqueue", "nsfs", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs",
	"selinuxfs", "squashfs", "sysfs", "tracefs", "udf",
}

// ofPods are directories below which container runtimes and kubelet mount what belongs to single pods.
var ofPods = []string{
	"/run/containerd", "/run/containers", "/run/netns", "/var/lib/containerd", "/var/lib/containers/storage", "/var/lib/docker",
	"/var/lib/kubelet/plugins", "/var/lib/kubelet/pods",
}

// mount is one mount of the node.
type mount struct {
	id   string // unique among the mounts there are
	path string // on the node
	kind string // of filesystem
	// readOnly is the mount's own flag; failed is true where the mount may be written to but its filesystem no longer can:
	// that is what a kernel does to a filesystem with errors.
	readOnly, failed bool
}

// FilesystemRO passes unless one of the node's filesystems has turned read-only: by the kernel, after an error, or since
// it was first seen. What was mounted read-only from the start is meant to be so. Mounts of single pods are left
// out. hostRoot is where the node's root directory is mounted, empty for /. params and memory may be nil.
func FilesystemRO(hostRoot string, params *v1alpha1.FilesystemCheck, memory *Mounts) Check {
	if memory == nil {
		memory = &Mounts{}
	}
	f := &filesystems{hostRoot: hostRoot, file: mountInfo, memory: memory}
	if params != nil {
		f.ignore = params.IgnorePaths
	}
	return Check{Name: NameFilesystem, Run: func(context.Context) Result { return f.look() }}
}

type filesystems struct {
	hostRoot, file string
	ignore         []string
	memory         *Mounts
}

// Mounts remembers how mounts were when they were first seen. It outlives the checks that use it, when their parameters
// change.
type Mounts struct {
	mu   sync.Mutex
	seen map[string]bool // by ID and path: whether the mount could be written to when it was first seen
}

// RememberMounts returns a memory of how mounts are now. What cannot be read now is remembered at the first check.
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
	turned := slices.DeleteFunc(f.memory.turned(mounts), func(path string) bool { return slices.Contains(f.ignore, path) })
	if len(turned) > 0 {
		return Fail("read-only: " + strings.Join(turned, ", "))
	}
	return Pass()
}

// open opens the node's own table, or else that of this process, and says where the node's root directory is in it.
func (f *filesystems) open() (file *os.File, hostRoot string, err error) {
	if f.hostRoot != "" {
		if file, err := os.Open(filepath.Join(f.hostRoot, nodeMountInfo)); err == nil {
			return file, "", nil
		}
	}
	file, err = os.Open(f.file)
	return file, f.hostRoot, err
}

// turned returns the paths that are read-only and should not be, and remembers the mounts.
func (s *Mounts) turned(mounts []mount) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := make(map[string]bool, len(mounts))
	var turned []string
	for _, m := range mounts {
		if slices.Contains(neverWritten, m.kind) || slices.ContainsFunc(ofPods, m.below) {
			continue
		}
		key := m.id + " " + m.path
		writable, known := s.seen[key]
		if !known {
			writable = !m.readOnly && !m.failed
		}
		now[key] = writable
		if m.failed || m.readOnly && writable {
			turned = append(turned, m.path)
		}
	}
	s.seen = now
	slices.Sort(turned)
	return slices.Compact(turned)
}

func (m mount) below(dir string) bool { return m.path == dir || strings.HasPrefix(m.path, dir+"/") }

// parseMountInfo reads the mounts below hostRoot, by their paths on the node.
func parseMountInfo(r io.Reader, hostRoot string) ([]mount, error) {
	var mounts []mount
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // overlays list many directories
	for lines.Scan() {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
		fields := strings.Fields(lines.Text())
		end := slices.Index(fields, "-")
		if end < 6 || len(fields) < end+4 {
			return nil, fmt.Errorf("%s: cannot read the line %q", mountInfo, lines.Text())
		}
		path, ok := onNode(unescape(fields[4]), hostRoot)
		if !ok {
			continue
		}
		m := mount{id: fields[0], path: path, kind: fields[end+1], readOnly: hasOption(fields[5], "ro")}
		whole := hasOption(fields[end+3], "ro") // the filesystem, not just this mount of it
		if path == "/" && fields[4] != "/" {
			m.readOnly = whole // the agent's own mount of the root directory is read-only in any case
		}
		if whole && m.kind == "overlay" && !strings.Contains(fields[end+3], "upperdir=") {
			m.readOnly = true // nobody could ever write to it, as to the root directory of some immutable systems
		}
		m.failed = whole && !m.readOnly
		mounts = append(mounts, m)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", mountInfo, err)
	}
	return mounts, nil
}

// onNode is the path on the node of what this process sees at path.
func onNode(path, hostRoot string) (string, bool) {
	if hostRoot == "" || hostRoot == "/" {
		return path, true
	}
	rest, ok := strings.CutPrefix(path, filepath.Clean(hostRoot))
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	if rest == "" {
		return "/", true
	}
	return rest, true
}

func hasOption(options, option string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == option {
			return true
		}
	}
	return false
}

// unescape undoes the kernel's escaping of spaces, tabs, line breaks and backslashes as \ooo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
