// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Lines of go test -json: "action package test", and an output.
func events(lines ...string) string {
	var out strings.Builder
	for _, line := range lines {
		words := append(strings.Fields(line), "", "", "")
		out.WriteString(`{"Action":"` + words[0] + `","Package":"` + words[1] + `","Test":"` + words[2] + `","Output":"` +
			strings.ReplaceAll(words[3], "_", " ") + `\n"}` + "\n")
	}
	return out.String()
}

func TestCheck(t *testing.T) {
	one := events("run p T", "pass p T", "pass p")
	suite := []string{"run p TestSuite", "output p TestSuite SUCCESS!_--_3_Passed_|_0_Failed_|_1_Pending_|_1_Skipped"}
	tests := []struct {
		name, events, then string // then is what the command does after it has written the events
		ci, least, after   string
		raise              bool
		last, says         string
		flaky              []string
	}{
		{name: "tests without subtests, and subtests, count", last: "3 passed, 0 failed, 0 skipped",
			events: events("run p T", "run p T/a", "run p T/b/c", "pass p T/a", "pass p T/b/c", "pass p T", "run p U",
				"pass p U", "pass p", "skip without-tests", "pass all-of-another-system")},
		{name: "a failure counts once", last: "0 passed, 1 failed, 0 skipped", then: "exit 1",
			events: events("run p T", "run p T/a", "fail p T/a", "fail p T", "fail p")},
		{name: "a failure of the parent alone counts", last: "1 passed, 1 failed, 0 skipped",
			events: events("run p T", "run p T/a", "pass p T/a", "fail p T", "fail p")},
		{name: "so does one of the package alone", last: "1 passed, 1 failed, 0 skipped",
			events: events("run p T", "pass p T", "fail p")},
		{name: "a package that does not compile", last: "0 passed, 1 failed, 0 skipped", events: events("fail p")},
		{name: "a test that ends its process", last: "0 passed, 1 failed, 0 skipped",
			events: events("run p T", "fail p")},
		{name: "a stream that breaks off", last: "0 passed, 1 failed, 0 skipped", events: events("run p T") + `{"Acti`},
		{name: "a test that fails once is told, and counts once", last: "2 passed, 0 failed, 0 skipped",
			events: events("run p T", "run p T/a", "run p T/b", "fail p T/a", "pass p T/b", "fail p T", "fail p",
				"run p T", "run p T/a", "pass p T/a", "pass p T", "pass p"), flaky: []string{"p T/a"}},
		{name: "a test that fails twice fails", last: "1 passed, 1 failed, 0 skipped", then: "exit 1",
			events: events("run p T", "fail p T", "run p U", "fail p U", "fail p",
				"run p T", "fail p T", "fail p", "run p U", "pass p U", "pass p"), flaky: []string{"p U"}},
		{name: "a test that is skipped when it runs again fails", last: "0 passed, 1 failed, 0 skipped",
			events: events("run p T", "fail p T", "fail p", "run p T", "skip p T", "pass p")},
		{name: "a test that does not end when it runs again fails", last: "0 passed, 1 failed, 0 skipped",
			events: events("run p T", "fail p T", "fail p", "run p T")},
		{name: "a process that ended is not made up for by a rerun", last: "0 passed, 1 failed, 0 skipped",
			events: events("run p T", "fail p", "run p T", "pass p T", "pass p")},
		{name: "nor is a package that failed without a test", last: "1 passed, 1 failed, 0 skipped",
			events: events("run p T", "pass p T", "fail p", "pass p")},
		{name: "a suite that fails once", last: "3 passed, 0 failed, 2 skipped", flaky: []string{"p TestSuite"},
			events: events("run p TestSuite", "output p TestSuite FAIL!_--_2_Passed_|_1_Failed_|_1_Pending_|_1_Skipped",
				"fail p TestSuite", "fail p") + events(append(suite, "pass p TestSuite", "pass p")...)},
		{name: "a suite's specs count", last: "3 passed, 0 failed, 2 skipped", ci: "false", least: "9",
			events: events(append(suite, "pass p TestSuite", "pass p")...)},
		{name: "a suite that fails after its specs", last: "3 passed, 1 failed, 2 skipped",
			events: events(append(suite, "fail p TestSuite", "fail p")...)},
		{name: "a skipped test fails in CI", last: "1 passed, 1 failed, 1 skipped", ci: "1", says: "must run",
			events: events("run p T", "pass p T", "run p U", "skip p U", "pass p")},
		{name: "fewer tests than before", events: one, least: "2\n", last: "1 passed, 1 failed, 0 skipped",
			says: "at least 2"},
		{name: "as many as before", events: one, least: "1\n", last: "1 passed, 0 failed, 0 skipped"},
		{name: "the number is raised", events: one, least: "0\n", raise: true, after: "1\n",
			last: "1 passed, 0 failed, 0 skipped"},
		{name: "not after a failure", events: one, then: "exit 1", least: "0\n", raise: true, after: "0\n",
			last: "1 passed, 1 failed, 0 skipped", says: "exit status 1, and no test failed"},
		{name: "no test", last: "0 passed, 1 failed, 0 skipped", says: "no test ran"},
		{name: "a process left behind", events: one, then: "sleep 600 >/dev/null 2>&1 &",
			last: "1 passed, 1 failed, 0 skipped", says: "left behind: sleep 600 (pid "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasSuffix(tt.then, "&") && runtime.GOOS != "linux" {
				t.Skip("only Linux lets a process adopt orphans")
			}
			t.Setenv("CI", tt.ci)
			dir := t.TempDir()
			c := check{events: filepath.Join(dir, "events"), raise: tt.raise, patience: time.Second}
			if tt.least != "" {
				c.least = filepath.Join(dir, "least")
				if err := os.WriteFile(c.least, []byte(tt.least), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			c.out = &out
			c.command = []string{"sh", "-c", `printf %s "$1" >"$2"; ` + tt.then, "sh", tt.events, c.events}
			well := c.run(t.Context())
			if want := strings.Contains(tt.last, " 0 failed"); well != want {
				t.Errorf("ended well: %v", well)
			}
			if !strings.HasSuffix(out.String(), "\n"+tt.last+"\n") || !strings.Contains(out.String(), tt.says) {
				t.Errorf("want %q and, last, %q, got:\n%s", tt.says, tt.last, out.String())
			}
			var flaky []string
			for line := range strings.Lines(out.String()) {
				if name, ok := strings.CutPrefix(line, "FLAKY: "); ok {
					flaky = append(flaky, strings.TrimSuffix(name, " (failed once, passed when it ran again)\n"))
				}
			}
			if !slices.Equal(flaky, tt.flaky) {
				t.Errorf("flaky: %q", flaky)
			}
			if got, _ := os.ReadFile(c.least); tt.after != "" && string(got) != tt.after {
				t.Errorf("the number is %q", got)
			}
		})
	}
}
