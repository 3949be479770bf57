// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	operating = "docs/operating.md"
	nodeAgent = "docs/node-agent.md"
)

// TestFlags asks the operator itself: its flags are in package main, and some come from libraries.
func TestFlags(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/manager", "--help")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	help, err := cmd.Output()
	must(t, err)
	flag := regexp.MustCompile(`^ +(?:-\w, )?--([a-z-]+).*?(?:\(default "?([^")]*)"?\))?$`)
	defaults := map[string]string{}
	inCode := sets.New[string]()
	for line := range strings.Lines(string(help)) {
		m := flag.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || m[1] == "help" || m[1] == "version" {
			continue
		}
		inCode.Insert("--" + m[1])
		defaults["--"+m[1]] = m[2]
	}
	documented := sets.New[string]()
	for _, r := range open(t, operating).tables(t, "Flags") {
		name := strings.Join(codes(r[0]), "")
		documented.Insert(name)
		if want := defaults[name]; want != "" && strings.Join(codes(r[1]), "") != want {
			t.Errorf("%s: the default of %s is %s, not %s", operating, name, want, r[1])
		}
	}
	same(t, "flags", operating, inCode, documented)
}

// TestMetrics holds the operator's metrics and the node agent's, each on its own page.
func TestMetrics(t *testing.T) {
	inCode := map[string]sets.Set[string]{operating: sets.New[string](), nodeAgent: sets.New[string]()}
	collect := func(path string, file *ast.File) {
		where := operating
		if strings.HasPrefix(path, "internal/agent/") || strings.HasPrefix(path, "cmd/agent/") {
			where = nodeAgent
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && strings.HasPrefix(s, "node_readiness_") {
					inCode[where].Insert(s)
				}
			}
			return true
		})
	}
	walkGo(t, "internal", collect)
	walkGo(t, "cmd", collect)
	for where, names := range inCode {
		same(t, "metrics", where, names, open(t, where).documented(t, 1, "Metrics"))
	}
}

// TestReasons holds the words by which the operator says why: reasons and actions of events, types and reasons of a
// rule's conditions, states of nodes with their reasons, and reasons of failures.
func TestReasons(t *testing.T) {
	inCode := sets.New[string]()
	name := regexp.MustCompile(`^(reason|action|failure|Reason)[A-Z]`)
	walkGo(t, "internal", func(path string, file *ast.File) {
		if strings.HasPrefix(path, "internal/agent/") { // it has its own words
			return
		}
		inCode.Insert(constants(file, name)...)
	})
	api := regexp.MustCompile(`^(Condition|NodeState)[A-Z]`)
	walkGo(t, "api", func(path string, file *ast.File) {
		for _, base := range []string{"names.go", "status_types.go"} {
			if filepath.Base(path) == base {
				inCode.Insert(constants(file, api)...)
			}
		}
	})
	documented := open(t, operating).documented(t, 2, "Events on nodes", "Events on pods", "Events on rules",
		"Events on the node agents' ConfigMap", "Events on the CRD", "Conditions of a rule", "States of a node",
		"Reasons of failures")
	same(t, "reasons, actions, conditions and states", operating, inCode, documented)
}

// constants are the values of the string constants of a file whose names match.
func constants(file *ast.File, name *regexp.Regexp) []string {
	var out []string
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			values, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, id := range values.Names {
				if !name.MatchString(id.Name) || i >= len(values.Values) {
					continue
				}
				if lit, ok := values.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if s, err := strconv.Unquote(lit.Value); err == nil {
						out = append(out, s)
					}
				}
			}
		}
	}
	return out
}

// walkGo parses all Go files below a directory but the tests. It gives their paths within the checkout.
func walkGo(t *testing.T, dir string, visit func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(rel), file)
		return nil
	})
	must(t, err)
}
