// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	play = flag.Bool("play", false, "play stories with each mutant")
	only = flag.String("only", "", "play only with mutants whose name this regular expression matches")

	share  = flag.Int("share", 800, "without -play: about how many stories to play with a share of the mutants")
	within = flag.Int("within", 1500, "how many random stories find each mutant at most")

	results = flag.String("results", "", "a directory that keeps what has become of each mutant, so that a run that was "+
		"ended goes on where it was; a change of a file begins again")
	enough = flag.Duration("for", 0, "after how long to play with no further mutant; 0: play with all")
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

// easy is the seed up to which a mutant was found that may be in the share. A change of the generator moves all seeds:
// what needs many stories would sometimes not be found, and a test must not fail by chance.
const easy = 50

// startCost is how many stories take as long as the start of the program.
const startCost = 40

// TestMutants looks whether each mutant still has its text, and plays stories with a share of them until one fails, by
// any predicate. With -play it plays all, and writes the report, also if some are not found. It keeps what earlier runs
// knew of the others.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	sources := read(t, filepath.Join(root, "internal"), filepath.Join(root, "config"))
	places := make([]place, len(mutants))
	for i := range mutants {
		if places[i], err = locate(sources, mutants[i].old); err != nil {
			t.Errorf("%s: %v", mutants[i].name, err)
		}
	}
	if t.Failed() || !*play && (testing.Short()) {
		return
	}
	program, stories, pattern, began := "", readSeeds(t), regexp.MustCompile(*only), time.Now()
	tree, wanted := digest(t, root, sources), func(i int) bool { return pattern.MatchString(mutants[i].name) }
	if *play {
		defer func() { writeReport(t, stories) }()
	} else {
		wanted = chosen(t, root, tree, places, stories)
	}
	for _, batch := range batches(places, wanted) {
		program = ""
		for _, i := range batch {
			m := &mutants[i]
			file := filepath.Join(*results, fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, tree, *within, *m))))
			line, known := kept(file)
			if !known && *enough > 0 && time.Since(began) > *enough {
				t.Fatalf("%s is played the next time", m.name)
			}
			if !known {
				if program == "" {
					program = compile(t, root, sources, places, batch)
				}
				line = find(t, root, program, i, sources[places[i].file], places[i])
				keep(t, file, line)
			}
			story, found, _ := strings.Cut(line, ", ")
			predicate, _, _ := strings.Cut(found, ":")
			if stories[m.name] = story + " " + predicate; story == "not found" {
				stories[m.name] = fmt.Sprintf("not found in %d", *within)
			}
			if story == "not found" || *play && !slices.Contains(strings.Split(m.predicate, "|"), predicate) {
				t.Errorf("%s: want %s to fail, got %q; repeat it by:\n"+
					"go test ./test/simulation/mutants -v -args -play -only=%q", m.name, m.predicate, line,
					"^"+regexp.QuoteMeta(m.name)+"$")
				continue
			}
			t.Logf("%s: %s", m.name, line)
		}
	}
	if *play && *only == "" {
		if program == "" {
			program = compile(t, root, sources, places, nil)
		}
		maps.Copy(stories, decisions(t, program))
	}
}

// chosen says which mutants are in the share of a tree: of those that were found early, first the ones in files that
// the last commit or the worktree has changed, then others in an order that the tree decides.
func chosen(t *testing.T, root string, tree [sha256.Size]byte, places []place,
	stories map[string]string) func(int) bool {
	t.Helper()
	diff := exec.CommandContext(t.Context(), "git", "diff", "--name-only", "HEAD~1")
	diff.Dir = root
	changed, _ := diff.Output() // without git, or an earlier commit, none
	files, order := strings.Fields(string(changed)), map[int]string{}
	for i := range mutants {
		file, err := filepath.Rel(root, places[i].file)
		if err != nil {
			t.Fatal(err)
		}
		rank := sha256.Sum256(fmt.Append(nil, tree, mutants[i].name))
		order[i] = fmt.Sprintf("%t %x", !slices.Contains(files, file), rank)
	}
	left, out := *share, map[int]bool{}
	earlier := func(i, j int) int { return cmp.Compare(order[i], order[j]) }
	for _, i := range slices.SortedFunc(maps.Keys(order), earlier) {
		var seed int
		_, err := fmt.Sscanf(stories[mutants[i].name], "seed %d", &seed)
		if cost := seed + startCost; err == nil && seed <= easy && cost <= left {
			left -= cost
			out[i] = true
		}
	}
	return func(i int) bool { return out[i] }
}

// digest is a hash of what may change what becomes of a mutant.
func digest(t *testing.T, root string, sources map[string]string) [sha256.Size]byte {
	t.Helper()
	simulation, h := read(t, filepath.Join(root, "test", "simulation")), sha256.New()
	for _, of := range []map[string]string{sources, simulation} {
		for _, file := range slices.Sorted(maps.Keys(of)) {
			_, _ = fmt.Fprintf(h, "%q %q\n", file, of[file])
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// kept returns what has become of a mutant before.
func kept(file string) (string, bool) {
	raw, err := os.ReadFile(file)
	return string(raw), *results != "" && err == nil
}

func keep(t *testing.T, file, line string) {
	t.Helper()
	if *results == "" {
		return
	}
	if err := errors.Join(os.MkdirAll(*results, 0o755), os.WriteFile(file, []byte(line), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// read reads the Go files and the manifests below directories, by their paths.
func read(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
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
func batches(places []place, wanted func(int) bool) [][]int {
	var out [][]int
	for i := range places {
		if !wanted(i) {
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

var failure = regexp.MustCompile(`(?m)^\s*simulation_test\.go:\d+: (seed \d+): (.*)$`)

// find plays random stories with a mutant, and returns the first seed that fails, and how: "seed 7, taints: why".
func find(t *testing.T, root, program string, n int, source string, p place) string {
	t.Helper()
	m, test := &mutants[n], "^TestStories$"
	args := []string{"-test.timeout=1h", "-first=1", "-shrink=0", "-workers=1", fmt.Sprintf("-seeds=%d", *within)}
	if filepath.Ext(p.file) == ".yaml" {
		changed := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(changed, []byte(source[:p.begin]+m.new+source[p.end:]), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := filepath.Rel(filepath.Join(root, "config"), p.file)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "-policy="+file+"="+changed)
	}
	if m.predicate == "starts" {
		test = "^TestStarts$"
		args = append(args, fmt.Sprintf("-seeds=%d", 10**within))
	}
	cmd := exec.CommandContext(t.Context(), program, append(args, "-test.run="+test)...)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), fmt.Sprintf("MUTANT=%d", n+1))
	out, err := cmd.CombinedOutput()
	match := failure.FindStringSubmatch(string(out))
	switch {
	case err == nil:
		return "not found"
	case match == nil: // too few stories met a fault, or a field
		return "not found, " + strings.TrimSpace(string(out[max(0, len(out)-200):]))
	}
	return match[1] + ", " + match[2]
}
