// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
)

// root is the checkout.
const root = "../.."

// page is a Markdown file.
type page struct {
	name  string
	lines []string
}

func open(t *testing.T, name string) page {
	t.Helper()
	return page{name: name, lines: strings.Split(string(read(t, name)), "\n")}
}

// read returns what is in a file of the checkout.
func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	must(t, err)
	return content
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var heading = regexp.MustCompile(`^(#+) +(.*)$`)

// row is a row of a table, without the header's.
type row []string

// tables are the rows of all tables below a heading, its subheadings included.
func (p page) tables(t *testing.T, below string) []row {
	t.Helper()
	level := 0
	var rows []row
	headers := 0
	for _, line := range p.lines {
		if m := heading.FindStringSubmatch(line); m != nil {
			switch {
			case m[2] == below:
				level = len(m[1])
			case level > 0 && len(m[1]) <= level:
				level = -1
			}
			continue
		}
		if level <= 0 || !strings.HasPrefix(line, "|") {
			headers = 0
			continue
		}
		if headers++; headers > 2 { // the header, and the line below it
			rows = append(rows, cells(line))
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s: no table below a heading %q", p.name, below)
	}
	return rows
}

func cells(line string) row {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar)
	var out row
	for c := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		out = append(out, strings.TrimSpace(strings.ReplaceAll(c, bar, "|")))
	}
	return out
}

var code = regexp.MustCompile("`([^`]+)`")

// codes are what stands in backquotes.
func codes(text string) []string {
	var out []string
	for _, m := range code.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// documented returns what is in backquotes in the first columns of all tables below the headings.
func (p page) documented(t *testing.T, columns int, headings ...string) sets.Set[string] {
	t.Helper()
	out := sets.New[string]()
	for _, h := range headings {
		for _, r := range p.tables(t, h) {
			for _, cell := range r[:columns] {
				out.Insert(codes(cell)...)
			}
		}
	}
	return out
}

// same compares what the code has with what a page documents, in both directions.
func same(t *testing.T, what, where string, inCode, documented sets.Set[string]) {
	t.Helper()
	if inCode.Len() == 0 {
		t.Fatalf("no %s found in the code: this test has gone blind", what)
	}
	if diff := cmp.Diff(sets.List(inCode), sets.List(documented)); diff != "" {
		t.Errorf("%s: -in the code +in %s\n%s", what, where, diff)
	}
}
