// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json, as described by `go doc test2json` and `go help buildjson`.
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64
	Output      string
	ImportPath  string
	FailedBuild string
}

// testRun is what the stream told about one test; its name has the subtests' names after slashes.
type testRun struct {
	outcome outcome
	output  strings.Builder
}

// packageRun is what the stream told about one package.
type packageRun struct {
	importPath  string
	name        string // the import path within the module
	ended       bool
	failed      bool
	failedBuild string
	elapsed     time.Duration
	output      strings.Builder
	names       []string // in order of their start
	tests       map[string]*testRun
}

func (p *packageRun) test(name string) *testRun {
	t, ok := p.tests[name]
	if !ok {
		t = &testRun{}
		p.tests[name] = t
		p.names = append(p.names, name)
	}
	return t
}

// stream is the state of one go test -json stream.
type stream struct {
	module   string
	packages map[string]*packageRun
	builds   map[string]*strings.Builder
	stray    strings.Builder // lines that are no events
	onEnd    func(*packageRun)
}

// newStream returns a stream that expects to hear of these packages of a module and calls onEnd at the end of each.
func newStream(module string, importPaths []string, onEnd func(*packageRun)) *stream {
	s := &stream{module: module, packages: map[string]*packageRun{}, builds: map[string]*strings.Builder{}, onEnd: onEnd}
	for _, path := range importPaths {
		s.pkg(path)
	}
	return s
}

func (s *stream) pkg(path string) *packageRun {
	p, ok := s.packages[path]
	if !ok {
		p = &packageRun{importPath: path, name: shortName(s.module, path), tests: map[string]*testRun{}}
		s.packages[path] = p
	}
	return p
}

// read takes in the stream to its end.
func (s *stream) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var e event
			if jsonErr := json.Unmarshal(line, &e); jsonErr != nil || e.Action == "" {
				fmt.Fprintf(&s.stray, "%s\n", line)
			} else {
				s.handle(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the output of go test: %w", err)
		}
	}
}

func (s *stream) handle(e event) {
	if e.Action == "build-output" || e.Action == "build-fail" {
		b, ok := s.builds[e.ImportPath]
		if !ok {
			b = &strings.Builder{}
			s.builds[e.ImportPath] = b
		}
		b.WriteString(e.Output)
		return
	}
	p := s.pkg(e.Package)
	if e.Test != "" {
		p.handleTest(e)
		return
	}
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		p.ended = true
		p.failed = e.Action == "fail"
		p.failedBuild = e.FailedBuild
		p.elapsed = time.Duration(e.Elapsed * float64(time.Second))
		if s.onEnd != nil {
			s.onEnd(p)
		}
	}
}

func (p *packageRun) handleTest(e event) {
	t := p.test(e.Test)
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "pass":
		t.outcome = passed
	case "fail":
		t.outcome = failed
	case "skip":
		t.outcome = skipped
	}
}

// buildOutput is what the compiler or vet said about the package, or everything it said where the stream does
// not tell which of it made the package fail.
func (s *stream) buildOutput(p *packageRun) string {
	if b, ok := s.builds[p.failedBuild]; ok {
		return b.String()
	}
	var all strings.Builder
	paths := make([]string, 0, len(s.builds))
	for path := range s.builds {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		all.WriteString(s.builds[path].String())
	}
	return all.String()
}
