// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// report is a test that ends as it is told to, and remembers how.
type report struct {
	testing.TB
	how string
}

type ended struct{}

func (r *report) Helper() {}

func (r *report) Fatalf(format string, args ...any) {
	r.how = "failed: " + fmt.Sprintf(format, args...)
	panic(ended{})
}

func (r *report) Skipf(format string, args ...any) {
	r.how = "skipped: " + fmt.Sprintf(format, args...)
	panic(ended{})
}

func ask(f func(testing.TB)) (how string) {
	r := &report{}
	defer func() {
		if p := recover(); p != nil && p != (ended{}) {
			panic(p)
		}
		how = r.how
	}()
	f(r)
	return r.how
}

func TestWhatIsMissingSkipsAndInCIFails(t *testing.T) {
	need := func(t testing.TB) { Command(t, "no-such-command", "no-such-package") }
	for ci, want := range map[string]string{"": "skipped: ", "false": "skipped: ", "true": "failed: ", "1": "failed: "} {
		t.Setenv("CI", ci)
		how := ask(need)
		if !strings.HasPrefix(how, want+"no-such-command, of Debian's package no-such-package, is not installed") {
			t.Errorf("CI=%s: %q", ci, how)
		}
	}
}

func TestACommandIsFoundInSbinToo(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"bin", "sbin"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(dir, "sbin", "some-command")
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, found := range map[string]bool{"/no/bin:" + dir + "/bin": true, dir + "/sbin": true, dir: false} {
		t.Setenv("PATH", path)
		if got, err := Find("some-command"); found && got != want || found != (err == nil) {
			t.Errorf("PATH=%s: %q, %v", path, got, err)
		}
	}
}
