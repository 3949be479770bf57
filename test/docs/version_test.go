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

// TestVersion compares the version that every page is for with the chart's. hack/version.sh writes it.
func TestVersion(t *testing.T) {
	version := ""
	for _, line := range open(t, "charts/nodegate/Chart.yaml").lines {
		if after, ok := strings.CutPrefix(line, "appVersion: "); ok {
			version = after
		}
	}
	for _, name := range pages(t) {
		p := open(t, name)
		forUsers := strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/design/")
		if forUsers && !slices.Contains(p.lines, "This page is for Nodegate "+version+".") {
			t.Errorf("%s does not say that it is for %s: run hack/version.sh", name, version)
		}
		if name == "CHANGELOG.md" || name == "docs/upgrade.md" { // they name other versions, too
			continue
		}
		for _, found := range named.FindAllStringSubmatch(strings.Join(p.lines, "\n"), -1) {
			if found[1] != version {
				t.Errorf("%s names %s, not %s: run hack/version.sh", name, found[0], version)
			}
		}
	}
}
