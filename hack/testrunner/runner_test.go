// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

const testdata = "hack/testrunner/testdata/"

// runTests runs the packages of testdata with a list of these names, and returns the output and whether all was well.
func runTests(t *testing.T, o options, packages []string, names ...string) (output string, ok bool) {
	t.Helper()
	if o.list == "" {
		o.list = writeList(t, names...)
	}
	o.parallel, o.servers = 2, true
	o.timeout = cmp.Or(o.timeout, time.Minute)
	for _, p := range packages {
		o.patterns = append(o.patterns, "./testdata/"+p)
	}
	var out strings.Builder
	r := newRunner(&o, &out)
	if slices.Contains(packages, "leaves") { // else nothing is left, and none waits
		r.patience = time.Second
	}
	err := r.run(context.Background())
	if err != nil && !errors.Is(err, errFailed) {
		t.Fatalf("the run broke: %v\n%s", err, out.String())
	}
	return out.String(), err == nil
}

func writeList(t *testing.T, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.txt")
	content := "# a comment\n"
	for _, name := range names {
		content += testdata + name + "\n"
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func lastLine(output string) string {
	lines := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
	return lines[len(lines)-1]
}

// The names in testdata/good.
var goodNames = []string{"good TestPlain", "good TestTable/a/b", "good TestTable/holds_the_taint"}

func TestRun(t *testing.T) {
	tests := []struct {
		name     string
		packages []string
		list     []string
		options  options
		ok       bool
		count    string
		says     []string
	}{
		{
			name: "all that is listed passes", packages: []string{"good"}, list: goodNames,
			ok: true, count: "3 passed, 0 failed, 0 skipped", says: []string{"ok    hack/testrunner/testdata/good"},
		},
		{
			name: "a listed test that did not run is a failure", packages: []string{"good"},
			list:  append([]string{"good TestGone", "good TestTable/gone"}, goodNames...),
			count: "3 passed, 2 failed, 0 skipped", says: []string{"did not run:", "good TestGone", "good TestTable/gone"},
		},
		{
			name: "a test that is not listed is a failure that names the remedy", packages: []string{"good"}, list: goodNames[1:],
			count: "3 passed, 1 failed, 0 skipped", says: []string{"make update-testlist", "good TestPlain"},
		},
		{
			name: "entries of packages that were not asked for are left alone", packages: []string{"good"},
			list: append([]string{"bad TestFails"}, goodNames...), ok: true, count: "3 passed, 0 failed, 0 skipped",
		},
		{
			name: "failures are shown in full and counted once", packages: []string{"bad"},
			list:  []string{"bad TestFails", "bad TestTable/passes", "bad TestTable/fails", "bad TestParent/passes"},
			count: "2 passed, 3 failed, 0 skipped",
			says:  []string{"this is why it fails", "this is why the row fails", "the parent alone fails", "FAIL  hack/testrunner/testdata/bad"},
		},
		{
			name: "a skipped test is a failure though it is listed", packages: []string{"skips"},
			list:  []string{"skips TestPasses", "skips TestSkips"},
			count: "1 passed, 1 failed, 1 skipped", says: []string{"Skipped, without", "skips TestSkips"},
		},
		{
			name: "a skipped test with leave in the list is none", packages: []string{"skips"},
			list: []string{"skips TestPasses", "skips TestSkips # may be skipped: needs root"},
			ok:   true, count: "1 passed, 0 failed, 1 skipped", says: []string{"skips TestSkips"},
		},
		{
			name: "a panic fails, and the package after it still runs", packages: []string{"good", "panics"},
			list: append([]string{"panics TestPanics"}, goodNames...), count: "3 passed, 1 failed, 0 skipped",
			says: []string{"this is why it panics", "goroutine "},
		},
		{
			name: "a test that ends the process fails by name", packages: []string{"exits"}, list: []string{"exits TestExits"},
			count: "0 passed, 1 failed, 0 skipped", says: []string{"TestExits did not finish"},
		},
		{
			name: "a package that ends well without running its tests is noticed", packages: []string{"nothing"},
			list: []string{"nothing TestLost"}, count: "0 passed, 1 failed, 0 skipped", says: []string{"did not run:", "nothing TestLost"},
		},
		{
			name: "a test that hangs fails at its limit", packages: []string{"hangs"}, list: []string{"hangs TestHangs"},
			options: options{timeout: 3 * time.Second}, count: "0 passed, 1 failed, 0 skipped", says: []string{"test timed out after 3s"},
		},
		{
			name: "a process that outlives its test is ended and fails the run", packages: []string{"leaves"}, list: []string{"leaves TestLeaves"},
			count: "1 passed, 1 failed, 0 skipped", says: []string{"left processes behind: sleep 600 (pid "},
		},
		{
			name: "a package that does not compile fails, and its tests are missed", packages: []string{"nobuild"},
			list:  []string{"nobuild TestNever"},
			count: "0 passed, 2 failed, 0 skipped", says: []string{"undefined: undefined", "nobuild (the package itself)", "did not run:"},
		},
		{
			name: "a suite's specs count, not the Go test that runs them", packages: []string{"suite"},
			list: []string{
				"suite TestBeside", "suite A node passes", "suite A node passes (2)", "suite A node fails",
				"suite A node skips # may be skipped: here", "suite A node is pending",
			},
			count: "3 passed, 2 failed, 2 skipped",
			says:  []string{"this is why the spec fails", "Skipped, without", "suite A node is pending"},
		},
		{
			name: "a suite that cannot start fails, and its specs are missed", packages: []string{"brokensuite"},
			list:  []string{"brokensuite A node never runs"},
			count: "0 passed, 2 failed, 0 skipped", says: []string{"no server", "brokensuite [BeforeSuite]", "did not run:"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if slices.Contains(tt.packages, "leaves") && runtime.GOOS != "linux" {
				t.Skip("only Linux lets a process adopt orphans")
			}
			output, ok := runTests(t, tt.options, tt.packages, tt.list...)
			if ok != tt.ok {
				t.Errorf("ended well = %v, want %v", ok, tt.ok)
			}
			if diff := gocmp.Diff(tt.count, lastLine(output)); diff != "" {
				t.Errorf("last line (-want +got):\n%s", diff)
			}
			for _, want := range tt.says {
				if !strings.Contains(output, want) {
					t.Errorf("the output does not say %q", want)
				}
			}
			if t.Failed() {
				t.Log(output)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	t.Run("writes what ran, keeps other packages and leave to skip, drops what is gone", func(t *testing.T) {
		path := writeList(t, "bad TestFails", "skips TestGone", "skips TestSkips # may be skipped: needs root")
		output, ok := runTests(t, options{list: path, update: true}, []string{"skips", "good"})
		if !ok {
			t.Fatalf("the update failed:\n%s", output)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := listHeader
		for _, name := range slices.Concat([]string{"bad TestFails"}, goodNames,
			[]string{"skips TestPasses", "skips TestSkips # may be skipped: needs root"}) {
			want += testdata + name + "\n"
		}
		if diff := gocmp.Diff(want, string(got)); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
	})
	t.Run("writes nothing where something failed", func(t *testing.T) {
		path := writeList(t, "bad TestGone")
		before, _ := os.ReadFile(path)
		output, ok := runTests(t, options{list: path, update: true}, []string{"bad"})
		after, _ := os.ReadFile(path)
		if ok || !strings.Contains(output, "was not updated") || string(before) != string(after) {
			t.Errorf("ok = %v, list before %q, after %q\n%s", ok, before, after, output)
		}
	})
}

func TestRunWithoutPackages(t *testing.T) {
	o := options{patterns: []string{"./testdata"}, list: writeList(t), servers: true}
	if err := newRunner(&o, &strings.Builder{}).run(context.Background()); err == nil {
		t.Error("a run of nothing ended well")
	}
}

func TestServersNeedAssets(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	sel := &selection{packages: []testPackage{{importPath: "m/test/e2e", servers: true}}}
	err := newRunner(&options{}, &strings.Builder{}).prepare(context.Background(), sel)
	if err == nil || !strings.Contains(err.Error(), "KUBEBUILDER_ASSETS") {
		t.Errorf("error %v does not name the variable", err)
	}
}

// The go command says more than its stream: it can fail where every package passed.
func TestGoTestFailsAfterGoodStream(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
case $1 in
list) echo '{"ImportPath":"m/p","TestGoFiles":["a_test.go"],"Module":{"Path":"m"}}' ;;
test) echo '{"Action":"pass","Package":"m/p"}'; echo 'no space left on device' >&2; exit 1 ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, ok := runTests(t, options{}, nil)
	if ok || !strings.Contains(output, "no space left on device") || lastLine(output) != "0 passed, 1 failed, 0 skipped" {
		t.Errorf("ended well = %v, output:\n%s", ok, output)
	}
}
