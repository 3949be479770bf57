// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"path"
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
