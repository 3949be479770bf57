// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

func TestFilesystemRO(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mountinfo")
	fixture, err := os.ReadFile("testdata/mountinfo")
	must(t, err)
	put := func(root, path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write := func(content string) { t.Helper(); put("", file, content) }
	look := func(f *filesystems, want Result) {
		t.Helper()
		if diff := cmp.Diff(want, f.look()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	start := func(ignore ...string) *filesystems {
		return &filesystems{file: file, ignore: ignore, memory: &Mounts{}}
	}
	healthy := strings.Replace(string(fixture), "/dev/sda2 ro", "/dev/sda2 rw", 1)

	t.Run("a filesystem that the kernel made read-only fails, whenever the agent started", func(t *testing.T) {
		write(string(fixture))
		look(start(), Fail("read-only: /data"))
	})
	t.Run("what was mounted read-only is meant to be, and so are images and pods' own mounts", func(t *testing.T) {
		write(healthy)
		look(start(), Pass())
	})
	t.Run("a mount that turns read-only fails until it is writable again", func(t *testing.T) {
		f := start()
		write(healthy)
		look(f, Pass())
		write(strings.Replace(healthy, "/ / rw", "/ / ro", 1))
		look(f, Fail("read-only: /"))
		look(f, Fail("read-only: /"))
		write(healthy)
		look(f, Pass())
	})
	t.Run("the node's root directory, which the agent has mounted read-only itself", func(t *testing.T) {
		f := start()
		f.hostRoot = "/host"
		const root = "50 40 8:1 / /host ro,relatime master:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
		write(root)
		look(f, Pass())
		write(strings.Replace(root, "sda1 rw", "sda1 ro", 1))
		look(f, Fail("read-only: /"))
		f = start()
		f.hostRoot = "/host"
		look(f, Pass()) // it may be meant to be so
	})
	t.Run("a path with characters that the kernel escapes", func(t *testing.T) {
		write(strings.NewReplacer(`\134 ro`, `\134 rw`, "/dev/sda3 rw", "/dev/sda3 ro").Replace(healthy))
		look(start(), Fail(`read-only: /mnt/with space\`))
	})
	t.Run("a path to ignore is left out", func(t *testing.T) {
		write(string(fixture))
		look(start("/data"), Pass())
		f := FilesystemRO(Environment{}, &v1alpha1.FilesystemCheck{IgnorePaths: []string{"/data//"}}, 0)
		if ignored := cleanPaths([]string{"/data//"}); !slices.Equal(ignored, []string{"/data"}) || f.Run == nil {
			t.Errorf("ignored: %v", ignored)
		}
	})
	t.Run("volumes of single pods, wherever the kubelet and the runtime have their directories", func(t *testing.T) {
		const uid, ofStatic = "8a2b51a6-8e5c-4c7b-9d0e-0123456789ab", "0123456789abcdef0123456789abcdef"
		for _, path := range []string{
			"/var/lib/k0s/kubelet/pods/" + uid + "/volumes/kubernetes.io~csi/pv/mount",
			"/data/kubelet/pods/" + ofStatic + "/volume-subpaths/a",
			"/data/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/0a/globalmount",
			"/var/snap/microk8s/common/var/lib/kubelet/pods/" + uid + "/volumes/a",
			"/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task/k8s.io/a/rootfs",
			"/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/a/rootfs",
			"/run/k0s/containerd/io.containerd.runtime.v2.task/k8s.io/a/rootfs",
			"/var/lib/rancher/k3s/agent/containerd/a", "/var/lib/rancher/rke2/agent/containerd/a",
			"/var/lib/k0s/containerd/a",
		} {
			write("35 27 8:4 / " + path + " rw shared:6 - ext4 /dev/sdb ro\n")
			look(start(), Pass())
		}
		write("35 27 8:4 / /pods/of/mine rw shared:6 - ext4 /dev/sdb ro\n")
		look(start(), Fail("read-only: /pods/of/mine"))
	})
	t.Run("another mount in the same place is looked at afresh", func(t *testing.T) {
		f := start()
		write(healthy)
		look(f, Pass())
		write(strings.Replace(healthy, "31 27 8:2 / /data rw", "99 27 8:2 / /data ro", 1))
		look(f, Pass())
	})
	t.Run("with a root directory of the node the table is that of the node's first process, and else its own",
		func(t *testing.T) {
			node := t.TempDir()
			f := start()
			f.hostRoot = node
			write(string(fixture)) // nothing in it is below the node's root directory
			look(f, Pass())
			put(node, nodeMountInfo, string(fixture))
			look(f, Fail("read-only: /data"))
		})
	t.Run("an overlay of lower directories only is meant to be read-only", func(t *testing.T) {
		const overlay = "40 27 0:40 / /immutable rw - overlay composefs ro,lowerdir=/a"
		write(healthy + overlay + "\n")
		look(start(), Pass())
		write(healthy + overlay + ",upperdir=/b,workdir=/c\n")
		look(start(), Fail("read-only: /immutable"))
	})
	t.Run("what a kernel says of a filesystem after an error, although it stays rw", func(t *testing.T) {
		for _, option := range []string{"emergency_ro", "shutdown"} {
			write(strings.Replace(healthy, "/dev/sda2 rw", "/dev/sda2 rw,"+option, 1))
			look(start(), Fail("read-only: /data"))
		}
	})
	t.Run("errors that grow, where the kernel's table says nothing of them", func(t *testing.T) {
		node := t.TempDir()
		put(node, nodeMountInfo, "31 27 8:2 / /data rw - ext4 /dev/sda2 rw\n")
		put(node, "sys/fs/ext4/sda2/errors_count", "3\n") // of another boot
		put(node, "proc/fs/ext4/sda2/options", "rw\nerrors=remount-ro\n")
		put(node, "sys/dev/block/x", "")
		must(t, os.Symlink("../../devices/sda/sda2", filepath.Join(node, "sys/dev/block/8:2")))
		f := start()
		f.hostRoot = node
		look(f, Pass())
		put(node, "sys/fs/ext4/sda2/errors_count", "4\n")
		look(f, Fail("read-only: /data"))
		look(f, Fail("read-only: /data"))
		put(node, "proc/fs/ext4/sda2/options", "rw\nerrors=continue\n")
		look(f, Pass())
	})
	t.Run("a table that cannot be read fails", func(t *testing.T) {
		write("nonsense\n")
		if r := start().look(); r.Passed {
			t.Error("passed")
		}
	})
}

func TestPathsOnTheNode(t *testing.T) {
	for _, c := range []struct {
		path, hostRoot, want string
		ok                   bool
	}{
		{"/data", "", "/data", true},
		{"/data", "/", "/data", true},
		{"/host", "/host", "/", true},
		{"/host/data", "/host/", "/data", true},
		{"/hostile", "/host", "", false},
		{"/data", "/host", "", false},
	} {
		if got, ok := onNode(c.path, c.hostRoot); got != c.want || ok != c.ok {
			t.Errorf("%s below %q: got %q, %t", c.path, c.hostRoot, got, ok)
		}
	}
}

// TestTheChartMountsWhatTheWriteTestWritesTo: the check finds no other directories, and none below these.
func TestTheChartMountsWhatTheWriteTestWritesTo(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "nodegate", "values.schema.json"))
	must(t, err)
	want := `"writeTest": {"type": "array", "uniqueItems": true, "items": {"enum": ["` +
		strings.Join(writePaths, `", "`) + `"]}`
	if !strings.Contains(string(raw), want) {
		t.Errorf("the chart's schema does not have %s", want)
	}
}

func FuzzParseMountInfo(f *testing.F) {
	fixture, err := os.ReadFile("testdata/mountinfo")
	must(f, err)
	f.Add(string(fixture))
	f.Add(`1 2 3 4 \ rw - a b c`)
	f.Fuzz(func(_ *testing.T, s string) { _, _ = parseMountInfo(strings.NewReader(s), "/host") })
}
