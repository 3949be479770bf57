// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// TestPluginWarnings holds the kinds of warnings about rules. The plugin's commands and flags are held beside the
// command.
func TestPluginWarnings(t *testing.T) {
	const plugin = "docs/kubectl-plugin.md"
	inCode := sets.New[string]()
	walkGo(t, "internal/ruleset/lint", func(_ string, file *ast.File) {
		inCode.Insert(constants(file, regexp.MustCompile(`^[A-Z]`))...)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			name, ok := call.Args[0].(*ast.BasicLit)
			if of, named := call.Fun.(*ast.Ident); ok && named && of.Name == "kind" {
				inCode.Insert(strings.Trim(name.Value, `"`))
			}
			return true
		})
	})
	same(t, "warnings", plugin, inCode, open(t, plugin).documented(t, 1, "Warnings"))
}
