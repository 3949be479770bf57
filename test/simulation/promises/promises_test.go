// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/test/simulation/model"
)

// root is the checkout.
const root = "../../.."

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestPages fails for a text of a page that is in no row, and for a quote that no page has.
func TestPages(t *testing.T) {
	texts := map[string][]string{}
	var all []string
	for _, page := range Pages {
		texts[page] = Texts(read(t, "docs/"+page+".md"))
		all = append(all, texts[page]...)
	}
	quoted := map[string]*Row{}
	for _, page := range Pages {
		for _, row := range rows(t, page) {
			for _, quote := range row.Quotes {
				found := Matches(all, quote)
				switch {
				case len(found) == 0:
					t.Errorf("%s:%d: no page has a text that begins so. If you have changed the text, change the quote. "+
						"If you have deleted it, delete the line; and the row, if it is the last one:\n    %s", row.File, row.Line, quote)
				case len(found) > 1:
					t.Errorf("%s:%d: %d texts begin so. Quote more words:\n    %s", row.File, row.Line, len(found), quote)
				case quoted[found[0]] != nil && quoted[found[0]].Without != row.Without:
					t.Errorf("%s:%d: %s:%d quotes this, too, and only one of them says that it promises something:\n    %s",
						row.File, row.Line, quoted[found[0]].File, quoted[found[0]].Line, quote)
				default:
					quoted[found[0]] = &row
				}
			}
		}
	}
	for _, page := range Pages {
		for _, text := range texts[page] {
			if quoted[text] == nil {
				t.Errorf("docs/%s.md: no row of test/simulation/promises/%s.txt quotes this text; %q are enough words:\n    %s",
					page, page, Shortest(all, text), text)
				quoted[text] = &Row{}
			}
		}
	}
	if t.Failed() {
		t.Log(help)
	}
}

const help = `A text of the documentation needs a row. If the operator must do something for it:

promise: The first words of the text
predicate: the one in test/simulation/model that fails if the operator does not do it
mutant: the one in test/simulation/mutants/list_test.go that takes it out of the operator

or, with a test:

promise: The first words of the text
test: internal/gate.TestName/the beginning of the name of a case
why: why the simulation does not test this

A row may have several lines of each word; so if a row says the same already, add a line "promise: " to it.
Otherwise add one line, with one of the words advice, example, introduction, link, others and reason:

reason: The first words of the text

test/simulation/README.md says more.
`

// TestRows looks whether the predicates, mutants and tests of each row exist, and counts.
func TestRows(t *testing.T) {
	known := mutants(t)
	kinds := map[Kind]int{}
	for _, page := range Pages {
		for _, row := range rows(t, page) {
			fail := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s:%d: "+format, append([]any{row.File, row.Line}, args...)...)
			}
			if fault := row.Fault(); fault != "" {
				fail("%s", fault)
			}
			for _, name := range row.Predicates {
				if name != "quiescence" && name != "starts" && !slices.Contains(model.Predicates, name) {
					fail("the model has no predicate %s", name)
				}
			}
			for _, name := range row.Mutants {
				if !known[name] {
					fail("test/simulation/mutants has no mutant of this name: %s", name)
				}
			}
			for _, name := range row.Tests {
				if why := exists(t, name); why != "" {
					fail("%s: %s", why, name)
				}
			}
			kinds[row.Kind()]++
		}
	}
	t.Logf("%v", kinds)
}

func rows(t *testing.T, page string) []Row {
	t.Helper()
	out, err := Load(".", page)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var mutant = regexp.MustCompile(`(?m)^\t+\{"(.*?)",`)

// mutants are the names of all mutants.
func mutants(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	files, err := filepath.Glob("../mutants/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mutant.FindAllStringSubmatch(string(raw), -1) {
			out[m[1]] = true
		}
	}
	return out
}

// exists says what is wrong with the name of a test: a directory, and after a dot a function, and after a slash the
// beginning of a text that the tests have, such as the name of a case; or a directory, and after a colon the beginning
// of the name of a spec. Empty, if it exists.
func exists(t *testing.T, name string) string {
	t.Helper()
	dir, function, found := strings.Cut(name, ".Test")
	want := []string{}
	if found {
		function, text, cased := strings.Cut(function, "/")
		want = append(want, "func Test"+function+"(")
		if cased {
			want = append(want, `"`+text)
		}
	} else {
		dir, name, _ = strings.Cut(name, ": ")
		want = append(want, `"`+name)
	}
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		return "there are no tests in " + dir
	}
	all := ""
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(raw)
	}
	for _, text := range want {
		if !strings.Contains(all, text) && !strings.Contains(all, strings.Replace(text, `"`, "`", 1)) {
			return "the tests in " + dir + " do not have " + text
		}
	}
	return ""
}

func TestTexts(t *testing.T) {
	got := Texts("# A page\n\nOne `code`. See [two](a.md#b): it\ngoes on. `three` is v1.2.\n\n" +
		"| Head | Of |\n|---|---|\n| **a** | b. C |\n\n```yaml\nnot: this. No.\n```\n" +
		"- **Bold.** Text.\n  Next.\n1. Item\n2. Other")
	want := []string{"One code.", "See two: it goes on.", "three is v1.2.", "a | b. C", "Bold. Text.", "Next.", "Item",
		"Other"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, want := Shortest([]string{"a b c d e f g", "a b c d e x"}, "a b c d e f g"), "a b c d e f"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFaults(t *testing.T) {
	for text, fault := range map[string]string{
		"promise: a\npredicate: b\nmutant: c": "",
		"promise: a\ntest: b\nwhy: c":         "",
		"promise: a\nopen: b":                 "",
		"predicate: b\nmutant: c":             "it quotes no page",
		"promise: a":                          "nothing holds it",
		"promise: a\ntest: b":                 "no predicate holds it",
		"promise: a\npredicate: b":            "no mutant deletes it",
		"reason: a\nopen: b":                  "it promises nothing",
		"promse: a":                           `"promse" is none of the words`,
		"promise a":                           "want a word, a colon and a text",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "page.txt"), []byte("# x\n\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		if rows, err := Load(dir, "page"); err != nil {
			got = err.Error()
		} else {
			got = rows[0].Fault()
		}
		if (fault == "") != (got == "") || !strings.Contains(got, fault) {
			t.Errorf("%q: got %q, want %q", text, got, fault)
		}
	}
}

// TestNames looks whether a test that does not exist is found.
func TestNames(t *testing.T) {
	for name, found := range map[string]bool{
		"test/simulation/promises.TestFaults":                 true,
		"test/simulation/promises.TestFaults/promise: a":      true,
		"test/simulation/promises.TestNothing":                false,
		"test/simulation/promises.TestFaults/promise:" + " z": false,
		"test/simulation/promises: promise: a":                true,
		"test/simulation/promises: promise:" + " z":           false,
		"test/simulation/nowhere.TestFaults":                  false,
	} {
		if got := exists(t, name) == ""; got != found {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
