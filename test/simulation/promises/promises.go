// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package promises is the table of what pages of the documentation promise, and of what holds each promise: one file
// for each page. Its test compares the files with the pages, the model, the mutants and the tests.
package promises

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Pages are the pages of docs that the table covers.
var Pages = []string{"admission", "concepts", "eviction-guard", "published-conditions", "replacement"}

// Nothing are the words why a text promises nothing of the operator.
var Nothing = map[string]string{
	"advice":       "what a person should do",
	"example":      "an example",
	"introduction": "the texts after it promise this, one by one",
	"link":         "it leads to another page",
	"others":       "what Kubernetes, or another program, does",
	"reason":       "why the operator does something, or what follows for a person",
}

// Row is a promise: what can be deleted from the operator alone.
type Row struct {
	// File and Line are where the row is.
	File string
	Line int
	// Quotes are the beginnings of the sentences, list items and rows of tables that make the promise.
	Quotes []string
	// Predicates, of the model, and Tests hold it. Open says what is missing where neither does.
	Predicates, Tests, Open []string
	// Mutants delete it.
	Mutants []string
	// Why says why a test holds it, or why there is no mutant.
	Why []string
	// Without is the word why the quotes promise nothing; empty, if they promise something.
	Without string
}

// Load reads the table of a page: rows with an empty line between them, and in each line a word, a colon, and a text.
// Texts that promise nothing need no empty lines.
func Load(dir, page string) ([]Row, error) {
	file := filepath.Join(dir, page+".txt")
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the table of a page: %w", err)
	}
	var rows []Row
	begun := false
	for i, line := range bytes.Split(raw, []byte("\n")) {
		word, text, found := strings.Cut(string(line), ": ")
		switch {
		case len(line) == 0:
			begun = false
			continue
		case line[0] == '#':
			continue
		case !found || text == "":
			return nil, fmt.Errorf("%s:%d: want a word, a colon and a text: %s", file, i+1, line)
		case !begun || Nothing[word] != "":
			rows = append(rows, Row{File: filepath.Base(file), Line: i + 1})
			begun = true
		}
		if !rows[len(rows)-1].add(word, text) {
			return nil, fmt.Errorf("%s:%d: %q is none of the words of a row", file, i+1, word)
		}
	}
	return rows, nil
}

// add adds a line to a row.
func (r *Row) add(word, text string) bool {
	lists := map[string]*[]string{"promise": &r.Quotes, "predicate": &r.Predicates, "test": &r.Tests, "open": &r.Open,
		"mutant": &r.Mutants, "why": &r.Why}
	switch list := lists[word]; {
	case list != nil:
		*list = append(*list, text)
	case Nothing[word] != "":
		r.Without, r.Quotes = word, []string{text}
	default:
		return false
	}
	return true
}

// Fault says what is wrong with a row by itself; empty, if nothing is.
func (r *Row) Fault() string {
	held := len(r.Predicates) + len(r.Tests)
	switch {
	case r.Without != "":
		if held+len(r.Open)+len(r.Mutants)+len(r.Why) > 0 {
			return "it promises nothing, so nothing can hold it: take out the other lines"
		}
	case len(r.Quotes) == 0:
		return `it quotes no page: add a line "promise: " with the first words of a sentence`
	case held == 0 && len(r.Open) == 0:
		return `nothing holds it: add a line "predicate: " or "test: ", or "open: " with what is missing`
	case len(r.Predicates) == 0 && len(r.Tests) > 0 && len(r.Why) == 0:
		return `no predicate holds it: add a line "why: " that says why a test does`
	case len(r.Predicates) > 0 && len(r.Mutants) == 0 && len(r.Why) == 0:
		return `no mutant deletes it: add a line "mutant: ", or "why: " that says why there is none`
	}
	return ""
}

// Kind says what holds a row.
type Kind string

// The kinds of rows.
const (
	ByMutant    Kind = "a predicate, and a mutant deletes it"
	ByPredicate Kind = "a predicate"
	ByTest      Kind = "a test"
	Open        Kind = "nothing yet"
	None        Kind = "no promise"
)

// Kind says what holds the row.
func (r *Row) Kind() Kind {
	switch {
	case r.Without != "":
		return None
	case len(r.Predicates) > 0 && len(r.Mutants) > 0:
		return ByMutant
	case len(r.Predicates) > 0:
		return ByPredicate
	case len(r.Tests) > 0:
		return ByTest
	}
	return Open
}

// Texts splits a page into sentences, items of lists and rows of tables, without their markup. Headings, blocks of code
// and the heads of tables are not among them.
func Texts(page string) []string {
	var out []string
	block, code := "", false
	flush := func() {
		out = append(out, sentences(block)...)
		block = ""
	}
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			flush()
			code = !code
		case code:
		case trimmed == "", strings.HasPrefix(trimmed, "#"):
			flush()
		case strings.HasPrefix(trimmed, "|"):
			flush()
			head := i+1 < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i+1]), "|--")
			if cells := strings.Trim(trimmed, "| "); !head && !strings.HasPrefix(trimmed, "|--") {
				out = append(out, plain(cells))
			}
		default:
			if item := marker(trimmed); item > 0 {
				flush()
				trimmed = trimmed[item:]
			}
			block = strings.TrimSpace(block + " " + trimmed)
		}
	}
	flush()
	return out
}

// marker is the length of the mark of a list's item at the beginning of a line.
func marker(line string) int {
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	switch {
	case strings.HasPrefix(line, "- "), strings.HasPrefix(line, "* "):
		return 2
	case digits > 0 && strings.HasPrefix(line[digits:], ". "):
		return digits + 2
	}
	return 0
}

// sentences splits a block. A sentence ends before a letter that is large, or before markup.
func sentences(block string) []string {
	var out []string
	from := 0
	for i := 0; i+2 < len(block); i++ {
		next := block[i+2]
		if strings.IndexByte(".?!", block[i]) >= 0 && block[i+1] == ' ' &&
			(next >= 'A' && next <= 'Z' || next >= '0' && next <= '9' || strings.IndexByte("`[(*", next) >= 0) {
			out = append(out, plain(block[from:i+1]))
			from = i + 2
		}
	}
	if rest := strings.TrimSpace(block[from:]); rest != "" {
		out = append(out, plain(rest))
	}
	return out
}

// plain takes out emphasis, marks of code, and the targets of links.
func plain(text string) string {
	text = strings.NewReplacer("`", "", "**", "", `\|`, "|").Replace(text)
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "](")
		from := strings.LastIndexByte(before, '[')
		if !found || from < 0 {
			out.WriteString(text)
			break
		}
		_, rest, _ := strings.Cut(after, ")")
		out.WriteString(before[:from] + before[from+1:])
		text = rest
	}
	return strings.Join(strings.FieldsFunc(out.String(), func(r rune) bool { return r == ' ' }), " ")
}

// Matches are the texts that begin with a quote, each once.
func Matches(texts []string, quote string) []string {
	var out []string
	for _, text := range texts {
		if strings.HasPrefix(text, quote) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// Shortest is the beginning of a text that no other one of the texts has: some words at least.
func Shortest(texts []string, text string) string {
	const least = 5
	words := strings.Split(text, " ")
	for n := least; n < len(words); n++ {
		if quote := strings.Join(words[:n], " "); len(Matches(texts, quote)) == 1 {
			return quote
		}
	}
	return text
}
