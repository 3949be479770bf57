// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// TestArchitectureNamesEveryPackage holds the table of packages in docs/architecture.md against the tree.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	const architecture = "docs/architecture.md"
	found := sets.New[string]()
	for _, top := range []string{"api", "cmd", "internal"} {
		walkGo(t, top, func(file string, _ *ast.File) { found.Insert(path.Dir(file)) })
	}
	same(t, "packages", architecture, found, open(t, architecture).documented(t, 1, "Packages"))
}

// TestArchitectureIsInTheOrderOfImports: a package imports only packages that come after it in that table.
func TestArchitectureIsInTheOrderOfImports(t *testing.T) {
	row := map[string]int{}
	for _, table := range open(t, "docs/architecture.md").tables(t, "Packages") {
		row[codes(table[0])[0]] = len(row)
	}
	seen := 0
	for _, top := range []string{"cmd", "internal"} {
		walkGo(t, top, func(file string, parsed *ast.File) {
			for _, spec := range parsed.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				imported, ours := strings.CutPrefix(name, "github.com/nodegate/nodegate/")
				below, listed := row[imported]
				if !ours || !listed {
					continue
				}
				seen++
				if from := path.Dir(file); below <= row[from] {
					t.Errorf("%s imports %s, which docs/architecture.md lists above it", file, imported)
				}
			}
		})
	}
	if seen < len(row) {
		t.Errorf("%d imports found: this test has gone blind", seen)
	}
}

// listed is a package in the linter's list of pure packages.
var listed = regexp.MustCompile(`\$\{config-path}/(internal/[\w/]+?)/\*+`)

// TestPurePackagesAreTheLinters holds the packages that the table calls pure against the linter's.
func TestPurePackagesAreTheLinters(t *testing.T) {
	_, rules, _ := strings.Cut(string(read(t, ".golangci.yml")), "        pure:\n")
	rules, _, _ = strings.Cut(rules, "allow:")
	pure, linted := sets.New[string](), sets.New[string]()
	for _, r := range open(t, "docs/architecture.md").tables(t, "Packages") {
		name := codes(r[0])[0]
		if strings.HasPrefix(strings.TrimSpace(r[1]), "*pure*") {
			pure.Insert(name)
		}
		for _, m := range listed.FindAllStringSubmatch(rules, -1) {
			if name == m[1] || strings.HasSuffix(m[0], "/**") && strings.HasPrefix(name, m[1]+"/") {
				linted.Insert(name)
			}
		}
	}
	same(t, "pure packages", "docs/architecture.md", linted, pure)
}
