// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tally is how many tests passed, failed and were skipped.
type tally struct{ passed, failed, skipped int }

func (t tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// tests is what is known of a package. The empty name is the package itself.
type tests struct {
	state map[string]string // "run" of a test that did not finish, "pass", "fail" or "skip"
	specs map[string]tally  // the specs of those tests that ran a Ginkgo suite
}

type report map[string]tests // by package

// ginkgoSummary is the last line of a Ginkgo suite.
var ginkgoSummary = regexp.MustCompile(`! -- (\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped`)

// readEvents reads the events of go test -json. The last line may be incomplete while they are being written.
func readEvents(path string) (report, error) {
	content, err := os.ReadFile(path)
	r := report{}
	for line := range bytes.Lines(content) {
		var e struct{ Action, Package, Test, Output string } // go doc test2json
		if json.Unmarshal(line, &e) == nil && e.Package != "" {
			r.add(e.Action, e.Package, e.Test, e.Output)
		}
	}
	return r, err
}

func (r report) add(action, pkg, test, output string) {
	p, ok := r[pkg]
	if !ok {
		p = tests{state: map[string]string{"": "run"}, specs: map[string]tally{}}
		r[pkg] = p
	}
	switch action {
	case "run", "pass", "fail", "skip":
		p.state[test] = action
	case "output":
		if m := ginkgoSummary.FindStringSubmatch(output); m != nil {
			n := make([]int, len(m))
			for i := range m {
				n[i], _ = strconv.Atoi(m[i])
			}
			p.specs[test] = tally{passed: n[1], failed: n[2], skipped: n[3] + n[4]}
		}
	}
}

// count counts the specs, and the tests and subtests without subtests or specs. One that has some counts only if it
// failed and none of them did, or if it was skipped after them; so does a package.
func (r report) count() tally {
	var t tally
	for _, p := range r {
		parent, failedBelow := map[string]bool{}, map[string]bool{}
		below := func(name string, failed bool) {
			parent[name] = true
			failedBelow[name] = failedBelow[name] || failed
		}
		for name, s := range p.specs {
			t.passed, t.failed, t.skipped = t.passed+s.passed, t.failed+s.failed, t.skipped+s.skipped
			below(name, s.failed > 0)
		}
		for name, state := range p.state {
			for i := range name {
				if i == 0 || name[i] == '/' {
					below(name[:i], state == "fail" || state == "run")
				}
			}
		}
		for name, state := range p.state {
			switch {
			case parent[name] && (state == "pass" || failedBelow[name]):
			case name == "" && state != "run" && state != "fail": // a package without tests for this machine
			case state == "pass":
				t.passed++
			case state == "skip":
				t.skipped++
			default:
				t.failed++
			}
		}
	}
	return t
}

// running names the packages whose tests have not ended.
func (r report) running() string {
	var names []string
	for pkg, p := range r {
		if p.state[""] == "run" {
			names = append(names, strings.TrimPrefix(pkg, "github.com/nodegate/nodegate/"))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
