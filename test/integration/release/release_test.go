// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the checkout.
const root = "../../.."

// TestAReleaseCanBeRepeated makes the release of one commit in two checkouts, for one platform, and compares each byte.
func TestAReleaseCanBeRepeated(t *testing.T) {
	version := newestVersion(t)
	const readLayers = `cd "$1" && tar -xzf nodegate_*_oci.tar.gz && cd nodegate-oci/blobs/sha256 &&
		for blob in *; do sha256sum -c - <<<"$blob  $blob" && if gzip -t "$blob"; then tar -tzf "$blob" || exit; fi; done`
	release := func() string {
		checkout := filepath.Join(t.TempDir(), "nodegate")
		for _, args := range [][]string{
			{"git", "clone", "--quiet", "--no-hardlinks", root, checkout},
			{"make", "-C", checkout, "release", "VERSION=" + version, "ARCHES=amd64", "PLATFORMS=linux/amd64"},
			{"bash", "-c", readLayers, "bash", filepath.Join(checkout, "dist")},
		} {
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
		sums, err := os.ReadFile(filepath.Join(checkout, "dist", "checksums.txt"))
		if err != nil {
			t.Fatal(err)
		}
		return string(sums)
	}
	first, second := release(), release()
	if first != second {
		t.Errorf("the same commit gave:\n%s\nand then:\n%s", first, second)
	}
	for _, file := range []string{
		"agent_linux_amd64.cdx.json", "image.txt", "install-with-agent.yaml", "install.yaml", "krew-nodegate.yaml",
		"kubectl-nodegate_" + version + "_linux_amd64.tar.gz", "nodegate-" + version[1:] + ".tgz",
		"nodegate_" + version + "_oci.tar.gz", "nodegate_" + version + "_olm-bundle.tar.gz", "release-notes.md",
	} {
		if !strings.Contains(first, "  "+file+"\n") {
			t.Errorf("the release has no %s:\n%s", file, first)
		}
	}
}

// newestVersion returns the newest version that the changelog has a section for.
func newestVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindSubmatch(text)
	if section == nil {
		t.Fatal("CHANGELOG.md has no version")
	}
	return "v" + string(section[1])
}
