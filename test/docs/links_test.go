// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// pages are the names of all Markdown files of the checkout.
func pages(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata", "node_modules"}, d.Name()) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(p, ".md") {
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			out = append(out, filepath.ToSlash(rel))
		}
		return nil
	})
	must(t, err)
	if len(out) < 5 {
		t.Fatalf("only %q found: this test has gone blind", out)
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks follows the links between the pages, their anchors too, and to files.
func TestLinks(t *testing.T) {
	for _, name := range pages(t) {
		for _, line := range open(t, name).prose() {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				file, anchor, _ := strings.Cut(m[1], "#")
				target := name
				if file != "" {
					target = path.Join(path.Dir(name), file)
				}
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
					t.Errorf("%s: %s: %v", name, m[1], err)
					continue
				}
				if anchor != "" && !open(t, target).anchors().Has(anchor) {
					t.Errorf("%s: %s: there is no such heading", name, m[1])
				}
			}
		}
	}
}

// TestTablesHaveHeaders finds rows that a blank line separates from their table: a reader sees them as text.
func TestTablesHaveHeaders(t *testing.T) {
	rule := regexp.MustCompile(`^\|[-:| ]+\|$`)
	tables := 0
	for _, name := range pages(t) {
		lines := open(t, name).prose()
		for i, line := range lines {
			if !strings.HasPrefix(line, "|") || i > 0 && strings.HasPrefix(lines[i-1], "|") {
				continue
			}
			tables++
			if i+1 == len(lines) || !rule.MatchString(lines[i+1]) {
				t.Errorf("%s: there is no table above %q", name, line)
			}
		}
	}
	if tables < 50 {
		t.Errorf("only %d tables found: this test has gone blind", tables)
	}
}

// TestMakeTargets finds each "make something" of the pages in the Makefile.
func TestMakeTargets(t *testing.T) {
	targets := sets.New[string]()
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(read(t, "Makefile")), -1) {
		targets.Insert(m[1])
	}
	// In a block of code or in backquotes; several targets may follow, and variables.
	command := regexp.MustCompile("(?:^|`)make((?: +(?:-s|[a-z][a-z-]*))+)")
	found := 0
	for _, name := range pages(t) {
		for _, line := range open(t, name).lines {
			for _, m := range command.FindAllStringSubmatch(line, -1) {
				for target := range strings.FieldsSeq(m[1]) {
					found++
					if target != "-s" && !targets.Has(target) {
						t.Errorf("%s: make %s: there is no such target", name, target)
					}
				}
			}
		}
	}
	if found == 0 {
		t.Error("no make command found: this test has gone blind")
	}
}

// prose are the lines outside of blocks of code.
func (p page) prose() []string {
	var out []string
	inCode := false
	for _, line := range p.lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inCode = !inCode
			continue
		}
		if !inCode {
			out = append(out, line)
		}
	}
	return out
}

// anchors are what GitHub makes of the headings.
func (p page) anchors() sets.Set[string] {
	out := sets.New[string]()
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, line := range p.prose() {
		if m := heading.FindStringSubmatch(line); m != nil {
			out.Insert(strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[2]), ""), " ", "-"))
		}
	}
	return out
}
