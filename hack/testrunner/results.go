// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"
)

// outcome is how a test ended.
type outcome int

const (
	unfinished outcome = iota // started, and nobody saw it end: the process died
	passed
	failed
	skipped
)

// result is one test that counts: a Go test without subtests, a subtest without subtests, or a Ginkgo spec.
type result struct {
	pkg     string // as in packageRun.name
	name    string
	outcome outcome
}

func (r result) key() string { return r.pkg + " " + r.name }

// results lists what counts in a package. A test with subtests, or with specs, stands for itself only where it
// failed and none of them did, so that nothing is counted twice and no failure is lost.
func (s *stream) results(p *packageRun, report *suiteReport) []result {
	parents, failedBelow := map[string]bool{}, map[string]bool{}
	for _, name := range p.names {
		bad := p.tests[name].outcome == failed || p.tests[name].outcome == unfinished
		for i := range len(name) {
			if name[i] == '/' {
				parents[name[:i]] = true
				failedBelow[name[:i]] = failedBelow[name[:i]] || bad
			}
		}
	}
	specs := report.results(p.name)
	if suite := report.testName(p); suite != "" {
		parents[suite] = true
		for _, spec := range specs {
			failedBelow[suite] = failedBelow[suite] || spec.outcome == failed
		}
	}

	var list []result
	anyFailed := false
	for _, name := range p.names {
		r := result{pkg: p.name, name: name, outcome: p.tests[name].outcome}
		if r.outcome == unfinished {
			r.outcome = failed
		}
		if parents[name] && (r.outcome == passed || failedBelow[name]) {
			continue
		}
		list = append(list, r)
	}
	list = append(list, specs...)
	for _, r := range list {
		anyFailed = anyFailed || r.outcome == failed
	}
	if (p.failed || !p.ended) && !anyFailed {
		list = append(list, result{pkg: p.name, name: "(the package itself)", outcome: failed})
	}
	return numbered(list)
}

// numbered makes names unique: Ginkgo lets two specs have the same text.
func numbered(list []result) []result {
	seen := map[string]int{}
	for i, r := range list {
		seen[r.name]++
		if n := seen[r.name]; n > 1 {
			list[i].name += " (" + strconv.Itoa(n) + ")"
		}
	}
	return list
}

// failureText is everything that a failed package said about its failure, in the order of the tests.
func (s *stream) failureText(p *packageRun) string {
	var text strings.Builder
	if p.failed && len(p.names) == 0 {
		text.WriteString(s.buildOutput(p))
	}
	for _, name := range p.names {
		switch t := p.tests[name]; t.outcome {
		case failed:
			text.WriteString(t.output.String())
		case unfinished:
			text.WriteString(t.output.String())
			text.WriteString("--- " + name + " did not finish\n")
		}
	}
	text.WriteString(p.output.String())
	if !p.ended {
		text.WriteString("the output of go test ended before the end of this package\n" + s.stray.String())
	}
	return text.String()
}
