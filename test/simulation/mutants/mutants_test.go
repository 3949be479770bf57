// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	play = flag.Bool("play", false, "play stories with each mutant")
	only = flag.String("only", "", "play only with mutants whose name this regular expression matches")

	within = flag.Int("within", 1500, "how many random stories find each mutant at most")
)

// mutant is one change of the operator, or of a policy that ships.
type mutant struct {
	name string
	// old is a text that occurs exactly once in internal and config together; new replaces it. In Go, mutants are
	// compiled into one program: MUTANT is true where this one is played.
	old, new string
	// predicate is the one that must fail, or several, any of which may fail first.
	predicate string
}

// place is where the old text of a mutant is.
type place struct {
	file       string
	begin, end int
}

// TestMutants looks whether each mutant still has its text. With -play it plays stories with each until one fails, and
// with all of them it writes the report, also if some are not found.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	sources := read(t, root)
	places := make([]place, len(mutants))
	for i := range mutants {
		if places[i], err = locate(sources, mutants[i].old); err != nil {
			t.Errorf("%s: %v", mutants[i].name, err)
		}
	}
	if !*play || t.Failed() {
		return
	}
	program, stories, wanted := "", map[string]string{}, regexp.MustCompile(*only)
	for _, batch := range batches(places, wanted) {
		program = compile(t, root, sources, places, batch)
		for _, i := range batch {
			m := &mutants[i]
			found, story, err := find(t, root, program, i, sources[places[i].file], places[i])
			predicate, why, _ := strings.Cut(found, ":")
			if err != nil || !slices.Contains(strings.Split(m.predicate, "|"), predicate) {
				t.Errorf("%s: want %s to fail, got %q (%s, %v)", m.name, m.predicate, found, story, err)
				stories[m.name] = "not found"
				continue
			}
			stories[m.name] = story
			t.Logf("%s: %s, %s:%s", m.name, story, predicate, why)
		}
	}
	if *only == "" {
		writeReport(t, stories, decisions(t, program))
	}
}

// read reads the Go files of internal and the manifests of config, by their paths.
func read(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range []string{"internal", "config"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(file string, _ fs.DirEntry, err error) error {
			if ext := filepath.Ext(file); err != nil || ext != ".go" && ext != ".yaml" ||
				strings.HasSuffix(file, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(file)
			out[file] = string(raw)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// locate finds the one place of a text.
func locate(sources map[string]string, text string) (place, error) {
	var all []place
	for file, source := range sources {
		for at := 0; ; {
			n := strings.Index(source[at:], text)
			if n < 0 {
				break
			}
			all = append(all, place{file, at + n, at + n + len(text)})
			at += n + 1
		}
	}
	if len(all) != 1 {
		return place{}, fmt.Errorf("the old text occurs %d times: %s", len(all), text)
	}
	return all[0], nil
}

// batches are mutants that can be compiled into one program: those of which the texts do not overlap.
func batches(places []place, wanted *regexp.Regexp) [][]int {
	var out [][]int
	for i := range places {
		if !wanted.MatchString(mutants[i].name) {
			continue
		}
		at := slices.IndexFunc(out, func(batch []int) bool {
			return !slices.ContainsFunc(batch, func(j int) bool {
				return places[i].file == places[j].file && places[i].begin < places[j].end && places[j].begin < places[i].end
			})
		})
		if at < 0 {
			at, out = len(out), append(out, nil)
		}
		out[at] = append(out[at], i)
	}
	return out
}

// compile builds the simulation with the mutants of a batch.
func compile(t *testing.T, root string, sources map[string]string, places []place, batch []int) string {
	t.Helper()
	dir, replace, changed := t.TempDir(), map[string]string{}, map[string]string{}
	backwards := slices.SortedFunc(slices.Values(batch), func(i, j int) int { return places[j].begin - places[i].begin })
	for _, i := range backwards {
		p := places[i]
		if filepath.Ext(p.file) != ".go" {
			continue
		}
		if changed[p.file] == "" {
			changed[p.file] = sources[p.file]
		}
		changed[p.file] = changed[p.file][:p.begin] +
			strings.ReplaceAll(mutants[i].new, "MUTANT", fmt.Sprintf("isMutant(%d)", i)) + changed[p.file][p.end:]
	}
	written := 0
	write := func(file, text string) {
		written++
		to := filepath.Join(dir, fmt.Sprintf("%d.go", written))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[file] = to
	}
	for file, text := range changed {
		write(file, text)
		name := regexp.MustCompile(`(?m)^package .*$`).FindString(text)
		write(filepath.Join(filepath.Dir(file), "mutant.go"), name+`
import ("os"; "strconv")
var played, _ = strconv.Atoi(os.Getenv("MUTANT"))
func isMutant(n int) bool { return played == n+1 }
`)
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulation.test")
	if err := os.WriteFile(overlay, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program,
		"./test/simulation")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

var failure = regexp.MustCompile(`(?m)(?:FAIL: TestScripts/(\S+) .*\n)?` +
	`^\s*simulation_test\.go:\d+: (?:(seed \d+): )?(.*)$`)

// find plays stories with a mutant, first random ones, then those that are kept, and returns the failure, and the seed
// or the story.
func find(t *testing.T, root, program string, n int, source string, p place) (failed, story string, err error) {
	t.Helper()
	m := &mutants[n]
	args := []string{"-test.timeout=1h", "-first=1", "-shrink=0", fmt.Sprintf("-seeds=%d", *within)}
	if filepath.Ext(p.file) == ".yaml" {
		changed := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(changed, []byte(source[:p.begin]+m.new+source[p.end:]), 0o600); err != nil {
			return "", "", fmt.Errorf("writing a policy: %w", err)
		}
		file, err := filepath.Rel(filepath.Join(root, "config"), p.file)
		if err != nil {
			return "", "", fmt.Errorf("finding a policy: %w", err)
		}
		args = append(args, "-policy="+file+"="+changed)
	}
	tests := []string{"^TestStories$", "^TestScripts$"}
	if m.predicate == "starts" {
		tests = []string{"^TestStarts$"}
		args = append(args, fmt.Sprintf("-seeds=%d", 10**within))
	}
	for _, test := range tests {
		cmd := exec.CommandContext(t.Context(), program, append(args, "-test.run="+test)...)
		cmd.Dir, cmd.Env = "..", append(os.Environ(), fmt.Sprintf("MUTANT=%d", n+1))
		out, err := cmd.CombinedOutput()
		match := failure.FindStringSubmatch(string(out))
		switch {
		case err == nil:
		case match == nil:
			return "", "", fmt.Errorf("%w: %s", err, out)
		default:
			return match[3], strings.TrimSuffix(match[1], ".json") + match[2], nil
		}
	}
	return "", "", nil
}
