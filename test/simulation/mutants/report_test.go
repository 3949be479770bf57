// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/test/simulation/model"
	"github.com/nodegate/nodegate/test/simulation/promises"
)

// report is the file that says what holds each promise. seeds is where it comes from: a line for each mutant, with the
// first story that finds it, and for each predicate, with how often it decides.
const (
	report = "../PROMISES.md"
	seeds  = "../testdata/mutants.txt"
)

// readSeeds returns what earlier runs knew, by the name of a mutant or predicate.
func readSeeds(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(seeds)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		name, story, _ := strings.Cut(strings.TrimSpace(line), "\t")
		out[name] = story
	}
	return out
}

var decisive = regexp.MustCompile(`(?m)(\w+) +(\d+) decisive$`)

// decisions plays 1000 stories without a mutant, and returns how often each predicate decided.
func decisions(t *testing.T, program string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestStories$", "-test.v", "-first=1", "-seeds=1000")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	counts := map[string]string{}
	for _, m := range decisive.FindAllStringSubmatch(string(out), -1) {
		counts[m[1]] = m[2]
	}
	return counts
}

// writeReport writes what holds each promise: how often its predicates decide, and the first story that finds each of
// its mutants. It forgets mutants that are gone.
func writeReport(t *testing.T, stories map[string]string) {
	t.Helper()
	lines := strings.Builder{}
	for _, name := range slices.Sorted(maps.Keys(stories)) {
		if slices.Contains(model.Predicates, name) ||
			slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == name }) {
			fmt.Fprintf(&lines, "%s\t%s\n", name, stories[name])
		}
	}
	if err := os.WriteFile(seeds, []byte(lines.String()), 0o600); err != nil {
		t.Error(err)
	}
	for i := range mutants {
		stories[mutants[i].name] = cmp.Or(stories[mutants[i].name], "not played yet")
	}
	text, kinds, named := strings.Builder{}, map[promises.Kind]int{}, map[string]bool{}
	for _, page := range promises.Pages {
		rows, err := promises.Load("../promises", page)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "\n## %s.md\n\n| Promise | Held by | Decisions | Mutants |\n|---|---|---|---|\n", page)
		for i := range rows {
			row := &rows[i]
			kinds[row.Kind()]++
			if row.Without != "" {
				continue
			}
			held, decided, found := []string{}, []string{}, []string{}
			for _, name := range row.Predicates {
				held, decided = append(held, "`"+name+"`"), append(decided, stories[name])
			}
			held = append(held, row.Tests...)
			for _, name := range row.Mutants {
				named[name] = true
				found = append(found, fmt.Sprintf("%s (%s)", name, stories[name]))
			}
			fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", strings.ReplaceAll(row.Quotes[0], "|", "/"),
				strings.Join(held, "<br>"), strings.Join(decided, ", "), strings.Join(found, "<br>"))
		}
	}
	text.WriteString("\n## Mutants that no promise names\n\n")
	for i := range mutants {
		if name := mutants[i].name; !named[name] {
			fmt.Fprintf(&text, "- %s (%s)\n", name, stories[name])
		}
	}
	head := fmt.Sprintf("# What holds the promises of the documentation\n\n`make simulate-mutants` writes this page from "+
		"[`promises`](promises). Decisions\nare those of a predicate in 1000 stories. Behind a mutant are the "+
		"first of 1500 stories that finds it, and the\npredicate that failed. All are of the commit on which they were "+
		"played last: a change of the generator moves all seeds.\n\n"+
		"| Promises | |\n|---|---|\n| held by a predicate, and a mutant deletes them | %d |\n"+
		"| held by a predicate | %d |\n| held by a test | %d |\n| open | %d |\n\n%d texts promise nothing.\n",
		kinds[promises.ByMutant], kinds[promises.ByPredicate], kinds[promises.ByTest], kinds[promises.Open],
		kinds[promises.None])
	if err := os.WriteFile(report, []byte(head+text.String()), 0o600); err != nil {
		t.Error(err)
	}
}
