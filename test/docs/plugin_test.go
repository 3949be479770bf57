// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"regexp"
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
	})
	same(t, "warnings", plugin, inCode, open(t, plugin).documented(t, 1, "Warnings"))
}
