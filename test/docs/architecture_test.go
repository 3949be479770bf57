// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureNamesEveryPackage holds the table of packages in docs/architecture.md against the tree.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	row := regexp.MustCompile("(?m)^\\| `((?:api|cmd|internal)/[^`]+)` \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		named = append(named, m[1])
	}
	var found []string
	for _, top := range []string{"api", "cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			found = append(found, filepath.ToSlash(dir))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(found)
	for _, dir := range slices.Compact(found) {
		if !slices.Contains(named, dir) {
			t.Errorf("package %s is not in the table of docs/architecture.md", dir)
		}
	}
	for _, dir := range named {
		if !slices.Contains(found, dir) {
			t.Errorf("docs/architecture.md names %s, which is no package", dir)
		}
	}
}
