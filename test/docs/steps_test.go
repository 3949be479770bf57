// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
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
	{regexp.MustCompile(`(^|\|)\s*kustomize `), "no page asks for kustomize: use kubectl apply -k"},
	{regexp.MustCompile(`#\s*with agents`), "it fails for all others: use two blocks"},
}

// apart are pairs of commands that may not be in one block: a reader who copies it undoes the first one, or
// does it twice.
var apart = [][2]*regexp.Regexp{
	{regexp.MustCompile(`make .*\bdeploy\b`), regexp.MustCompile(`helm (install|upgrade)`)},
	{regexp.MustCompile(`nodegate (release|hold) \S+( --yes)?(  .*)?$`), regexp.MustCompile(`--undo`)},
	{regexp.MustCompile(`nodegate (release|pause) `), regexp.MustCompile(`"dryRun":\s*true`)},
	{regexp.MustCompile(`nodegate\.io/(override|maintenance)=`),
		regexp.MustCompile(`nodegate\.io/(override|maintenance)-`)},
}

// TestCommandsCanBeCopied looks at each block of commands on each page.
func TestCommandsCanBeCopied(t *testing.T) {
	for _, name := range pages(t) {
		shell := false
		var block []string
		for i, line := range open(t, name).lines {
			if fence := strings.TrimSpace(line); strings.HasPrefix(fence, "```") {
				for _, pair := range apart {
					if slices.ContainsFunc(block, pair[0].MatchString) && slices.ContainsFunc(block, pair[1].MatchString) {
						t.Errorf("%s:%d: a reader who copies the block runs both %s and %s", name, i, pair[0], pair[1])
					}
				}
				shell, block = fence == "```sh", nil
				continue
			}
			if shell {
				block = append(block, line)
			}
			if shell && strings.Contains(line, "helm template ") {
				for _, flag := range []string{"--include-crds", "--no-hooks", "--kube-version"} {
					if !strings.Contains(line, flag) {
						t.Errorf("%s:%d: %q needs %s", name, i+1, line, flag)
					}
				}
			}
			for _, f := range failing {
				if shell && f.line.MatchString(line) {
					t.Errorf("%s:%d: %q: %s", name, i+1, line, f.why)
				}
			}
		}
	}
}
