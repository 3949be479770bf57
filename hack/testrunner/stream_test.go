// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStream(t *testing.T) {
	tests := []struct {
		name    string
		lines   []string
		results []result
		text    string
	}{
		{
			name: "a stream that breaks off is a failure of what was running",
			lines: []string{
				`{"Action":"start","Package":"m/p"}`,
				`{"Action":"run","Package":"m/p","Test":"TestA"}`,
				`{"Action":"pass","Package":"m/p","Test":"TestA"}`,
				`{"Action":"run","Package":"m/p","Test":"TestB"}`,
			},
			results: []result{{"p", "TestA", passed}, {"p", "TestB", failed}},
			text:    "--- TestB did not finish\nthe output of go test ended before the end of this package\n",
		},
		{
			name:    "an empty stream is a failure of the package",
			results: []result{{"p", "(the package itself)", failed}},
			text:    "the output of go test ended before the end of this package\n",
		},
		{
			name:    "a line that is no event is shown where the package did not end",
			lines:   []string{`fatal: out of memory`},
			results: []result{{"p", "(the package itself)", failed}},
			text:    "the output of go test ended before the end of this package\nfatal: out of memory\n",
		},
		{
			name: "a package that fails after all its tests passed is a failure",
			lines: []string{
				`{"Action":"run","Package":"m/p","Test":"TestA"}`,
				`{"Action":"pass","Package":"m/p","Test":"TestA"}`,
				`{"Action":"output","Package":"m/p","Output":"exit status 66\n"}`,
				`{"Action":"fail","Package":"m/p","Elapsed":0.5}`,
			},
			results: []result{{"p", "TestA", passed}, {"p", "(the package itself)", failed}},
			text:    "exit status 66\n",
		},
		{
			name: "a parent that skips after its subtest passed is a skip",
			lines: []string{
				`{"Action":"run","Package":"m/p","Test":"TestA"}`,
				`{"Action":"run","Package":"m/p","Test":"TestA/one"}`,
				`{"Action":"pass","Package":"m/p","Test":"TestA/one"}`,
				`{"Action":"skip","Package":"m/p","Test":"TestA"}`,
				`{"Action":"pass","Package":"m/p"}`,
			},
			results: []result{{"p", "TestA", skipped}, {"p", "TestA/one", passed}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStream("m", []string{"m/p"}, nil)
			if err := s.read(strings.NewReader(strings.Join(tt.lines, "\n"))); err != nil {
				t.Fatal(err)
			}
			p := s.packages["m/p"]
			if diff := cmp.Diff(tt.results, s.results(p, nil), cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.text, s.failureText(p)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectPackages(t *testing.T) {
	const answer = `
{"ImportPath":"m/plain","TestGoFiles":["a_test.go"],"Module":{"Path":"m"}}
{"ImportPath":"m/plain.test","ForTest":"","Deps":["fmt","m/plain [m/plain.test]","example.org/x/y"],"Module":{"Path":"m"}}
{"ImportPath":"m/plain [m/plain.test]","ForTest":"m/plain"}
{"ImportPath":"m/without","Module":{"Path":"m"}}
{"ImportPath":"m/specs","XTestGoFiles":["a_test.go"],"Module":{"Path":"m"}}
{"ImportPath":"m/specs.test","Deps":["github.com/onsi/ginkgo/v2"]}
{"ImportPath":"m/env","TestGoFiles":["a_test.go"],"Module":{"Path":"m"}}
{"ImportPath":"m/env.test","Deps":["github.com/onsi/ginkgo/v2","sigs.k8s.io/controller-runtime/pkg/envtest"]}
{"ImportPath":"m/e2e","TestGoFiles":["a_test.go"],"Module":{"Path":"m"}}
{"ImportPath":"m/e2e.test","Deps":["m/test/cluster"]}
{"ImportPath":"m/unloadable","TestGoFiles":["a_test.go"],"Module":{"Path":"m"}}
`
	sel, err := selectPackages(strings.NewReader(answer))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]testPackage{
		{{importPath: "m/plain"}, {importPath: "m/unloadable"}},
		{{importPath: "m/specs", ginkgo: true}},
		{{importPath: "m/e2e", servers: true}},
		{{importPath: "m/env", ginkgo: true, servers: true}},
	}
	if diff := cmp.Diff(want, sel.batches(), cmp.AllowUnexported(testPackage{})); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
	if !sel.matched["without"] {
		t.Error("a package without tests is not among those matched: its entries in the list would be missed by nobody")
	}
	wantDeps := []string{"example.org/x/y", "github.com/onsi/ginkgo/v2", "sigs.k8s.io/controller-runtime/pkg/envtest"}
	if diff := cmp.Diff(wantDeps, sel.deps); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}

	sel.dropServers()
	if diff := cmp.Diff(want[:2], sel.batches(), cmp.AllowUnexported(testPackage{})); diff != "" {
		t.Errorf("batches without servers (-want +got):\n%s", diff)
	}
	if sel.matched["e2e"] || !sel.matched["plain"] {
		t.Errorf("without servers these are covered: %v", sel.matched)
	}
}
