// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// maySkip, after a name in the list, says that the test may be skipped, and why: for what cannot run everywhere.
const maySkip = " # may be skipped: "

const listHeader = `# The names of all tests: the runner compares them with those that ran, so that none is lost in silence.
# Written by "make update-testlist"; by hand only "# may be skipped: <why>" after a name.
`

// testList is the committed list: for each name ("package name") the reason why it may be skipped, mostly none.
type testList map[string]string

// readList reads the list; a missing file is an empty list, so that the first one can be written.
func readList(path string) (testList, error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the test list: %w", err)
	}
	list := testList{}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, maySkip)
		list[name] = reason
	}
	return list, nil
}

// write writes the list, sorted, so that two people's additions seldom meet.
func (l testList) write(path string) error {
	var content bytes.Buffer
	content.WriteString(listHeader)
	for _, name := range slices.Sorted(maps.Keys(l)) {
		content.WriteString(name)
		if reason := l[name]; reason != "" {
			content.WriteString(maySkip + reason)
		}
		content.WriteString("\n")
	}
	if err := os.WriteFile(path, content.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the test list: %w", err)
	}
	return nil
}

// packageOf is the package of a name in the list.
func packageOf(name string) string {
	pkg, _, _ := strings.Cut(name, " ")
	return pkg
}

// difference is how a run differs from the list.
type difference struct {
	missing []string // listed, and not run
	extra   []string // run, and not listed
	skipped []string // skipped without leave
}

// compare holds the results against the list. Entries of packages that are not covered by this run are left
// alone; covered reports whether one is.
func (l testList) compare(results []result, covered func(pkg string) bool) difference {
	var d difference
	ran := map[string]bool{}
	for _, r := range results {
		ran[r.key()] = true
		reason, listed := l[r.key()]
		switch {
		case r.outcome == skipped && reason == "":
			d.skipped = append(d.skipped, r.key())
		case !listed && r.outcome != failed: // a failure is reported as such, and may be no test at all
			d.extra = append(d.extra, r.key())
		}
	}
	for name := range l {
		if covered(packageOf(name)) && !ran[name] {
			d.missing = append(d.missing, name)
		}
	}
	slices.Sort(d.missing)
	slices.Sort(d.extra)
	slices.Sort(d.skipped)
	return d
}

// updated is the list with the covered packages' entries replaced by what ran; leave to skip is kept.
func (l testList) updated(results []result, covered func(pkg string) bool) testList {
	next := testList{}
	for name, reason := range l {
		if !covered(packageOf(name)) {
			next[name] = reason
		}
	}
	for _, r := range results {
		next[r.key()] = l[r.key()]
	}
	return next
}
