// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"fmt"
	"os"
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

func TestACommandIsFoundOffThePathToo(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/some-command", []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	defer func(before []string) { ofAdministrators = before }(ofAdministrators)
	ofAdministrators = []string{dir}
	if got := Command(t, "some-command", "p"); got != dir+"/some-command" {
		t.Errorf("got %s", got)
	}
	if got := Command(t, "sh", "dash"); !strings.HasSuffix(got, "/sh") {
		t.Errorf("got %s", got)
	}
}
