// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named finds versions of Nodegate.
var named = regexp.MustCompile(
	`(?:nodegate:|image\.tag=|ref=|[Nn]ewTag: |Nodegate |VERSION=|refs/tags/)(v\d+\.\d+\.\d+)`)

// dated is the heading of a version in the changelog that has been released.
var dated = regexp.MustCompile(`^## \[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$`)

// TestVersion compares the version in the commands of all pages with the chart's. hack/version.sh writes it. The pages
// describe the branch that they are on, so that no page may say that it is for a version.
func TestVersion(t *testing.T) {
	version := ""
	for _, line := range open(t, "charts/nodegate/Chart.yaml").lines {
		if after, ok := strings.CutPrefix(line, "appVersion: "); ok {
			version = after
		}
	}
	for _, name := range pages(t) {
		text := strings.Join(open(t, name).lines, "\n")
		if strings.Contains(text, "This page is for ") {
			t.Errorf("%s says for which version it is", name)
		}
		if name == "CHANGELOG.md" || name == "docs/upgrade.md" { // they name other versions, too
			continue
		}
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			if found[1] != version {
				t.Errorf("%s names %s, not %s: run hack/version.sh", name, found[0], version)
			}
		}
	}
}

// TestNoReleaseYet compares what newcomers read with the changelog: a version that was released has a date there.
func TestNoReleaseYet(t *testing.T) {
	released := slices.ContainsFunc(open(t, "CHANGELOG.md").lines, dated.MatchString)
	for _, name := range []string{"README.md", "SECURITY.md", "docs/README.md"} {
		text := strings.Join(strings.Fields(string(read(t, name))), " ")
		if none := strings.Contains(text, "here is no release yet"); none == released {
			t.Errorf("%s says that there is no release yet: %t; a version in CHANGELOG.md has a date: %t", name, none, released)
		}
	}
}
