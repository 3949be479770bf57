// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"
)

// failing are lines in blocks of commands that fail, or do too much, for a reader who copies the block.
var failing = []struct {
	line *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`#\s*or\b`), "a reader who copies the block runs both alternatives: use two blocks"},
	{regexp.MustCompile(`^\s*kubectl (get )?events( -w)? --for`), "events on nodes and rules are in the namespace " +
		"default: add -n default"},
}

// TestCommandsCanBeCopied looks at each block of commands on each page.
func TestCommandsCanBeCopied(t *testing.T) {
	for _, name := range pages(t) {
		shell := false
		for i, line := range open(t, name).lines {
			if fence := strings.TrimSpace(line); strings.HasPrefix(fence, "```") {
				shell = fence == "```sh"
				continue
			}
			for _, f := range failing {
				if shell && f.line.MatchString(line) {
					t.Errorf("%s:%d: %q: %s", name, i+1, line, f.why)
				}
			}
		}
	}
}
