// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// testPackage is a package that has tests.
type testPackage struct {
	importPath string
	// ginkgo: its test binary takes Ginkgo's flags.
	ginkgo bool
	// servers: it starts API servers, so that no other package should run beside it.
	servers bool
}

// Packages that give away what a test binary does.
const (
	ginkgoPackage  = "github.com/onsi/ginkgo/v2"
	envtestPackage = "sigs.k8s.io/controller-runtime/pkg/envtest"
	// localClusterSuffix follows the module's path.
	localClusterSuffix = "/test/cluster"
)

// listed is what is used of go list's answer.
type listed struct {
	ImportPath   string
	ForTest      string
	Deps         []string
	TestGoFiles  []string
	XTestGoFiles []string
	Module       *struct{ Path string }
}

// selection is the answer of go list for the patterns.
type selection struct {
	module   string
	matched  map[string]bool // short names of all packages that the patterns name, with tests or without
	packages []testPackage
	deps     []string // what the test binaries need from other modules
}

// shortName is a package's path within its module, which is enough in output and list.
func shortName(module, importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// listPackages asks the go command which packages there are and what their test binaries are made of.
func listPackages(ctx context.Context, patterns []string) (*selection, error) {
	args := []string{"list", "-e", "-test", "-json=ImportPath,ForTest,Deps,TestGoFiles,XTestGoFiles,Module"}
	cmd := exec.CommandContext(ctx, "go", append(args, patterns...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	return selectPackages(bytes.NewReader(out))
}

func selectPackages(r io.Reader) (*selection, error) {
	sel := &selection{matched: map[string]bool{}}
	binaries := map[string]listed{}
	withTests := map[string]bool{}
	for decoder := json.NewDecoder(r); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("decoding the answer of go list: %w", err)
		}
		switch {
		case strings.HasSuffix(l.ImportPath, ".test"):
			binaries[strings.TrimSuffix(l.ImportPath, ".test")] = l
		case l.ForTest == "":
			if l.Module != nil {
				sel.module = l.Module.Path
			}
			sel.matched[shortName(sel.module, l.ImportPath)] = true
			if len(l.TestGoFiles)+len(l.XTestGoFiles) > 0 {
				withTests[l.ImportPath] = true
			}
		}
	}
	deps := map[string]bool{}
	for path := range withTests {
		// A package whose tests cannot be loaded has no binary here: it is run nevertheless, to fail by name.
		p := testPackage{importPath: path}
		for _, dep := range binaries[path].Deps {
			dep, _, _ = strings.Cut(dep, " ")
			switch dep {
			case ginkgoPackage:
				p.ginkgo = true
			case envtestPackage, sel.module + localClusterSuffix:
				p.servers = true
			}
			if first, _, _ := strings.Cut(dep, "/"); strings.Contains(first, ".") && !strings.HasPrefix(dep, sel.module) {
				deps[dep] = true
			}
		}
		sel.packages = append(sel.packages, p)
	}
	slices.SortFunc(sel.packages, func(a, b testPackage) int { return strings.Compare(a.importPath, b.importPath) })
	for dep := range deps {
		sel.deps = append(sel.deps, dep)
	}
	slices.Sort(sel.deps)
	return sel, nil
}

// dropServers leaves only the packages that start no server; the entries of the others are then not compared.
func (s *selection) dropServers() {
	s.packages = slices.DeleteFunc(s.packages, func(p testPackage) bool {
		if p.servers {
			delete(s.matched, shortName(s.module, p.importPath))
		}
		return p.servers
	})
}

// batches groups the packages into runs of go test. Those that take Ginkgo's flags go one by one, since the
// report's file is named in the flags, and so do those that start servers, last; the others go together.
func (s *selection) batches() [][]testPackage {
	var plain []testPackage
	var single, servers [][]testPackage
	for _, p := range s.packages {
		switch {
		case p.servers:
			servers = append(servers, []testPackage{p})
		case p.ginkgo:
			single = append(single, []testPackage{p})
		default:
			plain = append(plain, p)
		}
	}
	var all [][]testPackage
	if len(plain) > 0 {
		all = append(all, plain)
	}
	return append(append(all, single...), servers...)
}
