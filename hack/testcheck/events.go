// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/nodegate/nodegate/"

// tally is how many tests passed, failed and were skipped.
type tally struct{ passed, failed, skipped int }

func (t tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// tests is what is known of a package. The empty name is the package itself.
type tests struct {
	// state is "run" of a test that has not finished, "pass", "fail" or "skip". It is "lost" of a test whose process ended
	// before it finished, and of a package that failed although none of its tests did: no rerun makes up for that.
	state map[string]string
	specs map[string]tally // the specs of those tests that ran a Ginkgo suite
	// flaky are the tests that failed, and passed when they ran again.
	flaky map[string]bool
	// failed is whether a test has failed in the process that is running.
	failed bool
}

type report map[string]*tests // by package

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
		p = &tests{state: map[string]string{"": "run"}, specs: map[string]tally{}, flaky: map[string]bool{}}
		r[pkg] = p
	}
	switch action {
	case "run", "pass", "fail", "skip":
		p.set(test, action)
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

// set records an event of a test. A rerun of a test that failed begins with "run", as the first run does.
func (p *tests) set(test, action string) {
	before := p.state[test]
	if before == "lost" {
		return
	}
	switch {
	case action == "run" && before == "fail": // until it has passed
	case action == "skip" && before == "fail":
	case action == "pass" && before == "fail":
		p.state[test], p.flaky[test] = action, true
	default:
		p.state[test] = action
	}
	if test != "" {
		p.failed = p.failed || action == "fail"
		return
	}
	for name, state := range p.state {
		if state == "run" {
			p.state[name], p.failed = "lost", true
		}
	}
	if action == "fail" && !p.failed {
		p.state[""] = "lost"
	}
	p.failed = false
}

// flaky names the tests that failed and passed when they ran again, without those that failed only because a subtest
// did.
func (r report) flaky() []string {
	var names []string
	for pkg, p := range r {
		for name := range p.flaky {
			subtest := slices.ContainsFunc(slices.Collect(maps.Keys(p.flaky)), func(other string) bool {
				return strings.HasPrefix(other, name+"/")
			})
			if name != "" && !subtest {
				names = append(names, strings.TrimPrefix(pkg, module)+" "+name)
			}
		}
	}
	slices.Sort(names)
	return names
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
					below(name[:i], state != "pass" && state != "skip")
				}
			}
		}
		for name, state := range p.state {
			switch {
			case parent[name] && (state == "pass" || failedBelow[name]):
			case name == "" && (state == "pass" || state == "skip"): // a package without tests for this machine
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
			names = append(names, strings.TrimPrefix(pkg, module))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
