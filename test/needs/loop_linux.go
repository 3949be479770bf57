// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Loop mounts a new filesystem on a loop device at dir until the test ends, and returns the device's name. The device
// detaches itself when nothing uses it, also when this process is killed.
func Loop(t testing.TB, dir string, size int64, kind string, mkfs ...string) string {
	t.Helper()
	mount, losetup := Command(t, "mount", "mount"), Command(t, "losetup", "mount")
	image := filepath.Join(t.TempDir(), "image")
	for _, err := range []error{os.WriteFile(image, nil, 0o600), os.Truncate(image, size), os.MkdirAll(dir, 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], image)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs[0], err, out)
	}
	if out, err := exec.Command(mount, "-t", kind, "-o", "loop", image, dir).CombinedOutput(); err != nil {
		Missing(t, fmt.Sprintf("a loop device with %s cannot be mounted (%v, %s)", kind, err, out))
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	out, err := exec.Command(losetup, "--noheadings", "--output=NAME", "--associated", image).Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(strings.TrimSpace(string(out)))
}
