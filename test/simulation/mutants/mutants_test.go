// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/json"
	"flag"
	"fmt"
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
)

// mutant is one change of the operator. Old must occur exactly once in the file.
type mutant struct {
	name, file, old string
	// new replaces old. In Go, all mutants are compiled into one program: MUTANT is true where this one is played.
	new string
	// predicate is the one that must fail, or several, any of which may fail first.
	predicate string
	// seeds is how many stories that may take.
	seeds int
}

var mutants = []mutant{
	{"patches without the test of the UID", "internal/taints/patch.go",
		`{Op: "test", Path: "/metadata/uid", Value: node.UID},`,
		`{Op: "test", Path: map[bool]string{false: "/metadata/uid", true: "/metadata/name"}[MUTANT],
			Value: map[bool]string{false: string(node.UID), true: node.Name}[MUTANT]},`, "ours", 5000},
	{"the limit is always granted", "internal/fleet/limit.go",
		`!state.amongFirst(`, `!MUTANT && !state.amongFirst(`, "limit", 3000},
	{"rules act before their evidence has been read", "internal/evidence/sources.go",
		`			return &ruleset.Problem{Field: fmt.Sprintf("spec.requirements[%d]", i), Reason: reason,`,
		`			if MUTANT && reason == ReasonPending {
				continue
			}
			return &ruleset.Problem{Field: fmt.Sprintf("spec.requirements[%d]", i), Reason: reason,`, "frozen", 1000},
	{"suspended rules claim", "internal/gate/rule.go", `	case in.Rule.Inert():
		return frozen(in, d)`, `	case in.Rule.Mode == ruleset.Frozen || !MUTANT && in.Rule.Inert():
		return frozen(in, d)`, "frozen", 3000},
	{"1: a rule that requires a frozen rule acts", "internal/ruleset/order.go",
		`	if !dependents {
		return s`, `	if MUTANT || !dependents {
		return s`, "frozen|blamed", 3000},
	{"2: a pod that started before the boot was seen never counts", "internal/readiness/boot.go",
		`	case boot == settled || boot == final:
		return true
	case !b.Former`, `	case MUTANT && boot != settled:
	case boot == settled || boot == final:
		return true
	case !b.Former`, "taints|marker", 5000},
	{"3: admission taints in a kubelet's update", "internal/admission/node/webhook.go",
		`req.Operation == admissionv1.Update && slices.Contains(`,
		`!MUTANT && req.Operation == admissionv1.Update && slices.Contains(`, "labelled", 3000},
	{"4: an old node with pods is new to a rule", "internal/gate/gate.go",
		`	if n.Occupied == nil || !n.adds()`, `	if MUTANT || n.Occupied == nil || !n.adds()`, "spared", 3000},
	{"5: a kubelet may overrule rules", "config/components/record-guard/policy.yaml",
		`      !variables.restricted ||
`, `      true ||
`, "overruled", 1000},
	{"8: evictions write through the cache's client", "internal/operator/replica.go",
		`Live: env.Direct, Rules`, `Live: map[bool]client.Client{false: env.Direct, true: env.Client}[MUTANT], Rules`,
		"watched", 3000},
	{"9: one refused eviction ends the others", "internal/guard/eviction/reconciler.go",
		`case refuses(err):`, `case !MUTANT && refuses(err):`, "evicted", 5000},
	{"10: a rule that was pruned stays so where its generation is the same", "internal/ruleset/rule.go",
		`equality.Semantic.DeepEqual(r.Spec, o.Spec)`, `(MUTANT || equality.Semantic.DeepEqual(r.Spec, o.Spec))`,
		"taints|marker|blamed|status|room|gone|marked|published|frozen",
		5000},
	{"10: rules are not read again when the CRD is ours again", "internal/watch/rules.go",
		`	for i := range rules {
		before`, `	if MUTANT {
		rules = nil
	}
	for i := range rules {
		before`, "taints|marker|blamed|status|room|gone|marked|published|frozen",
		5000},
	{"14: records in new nodes are not looked at", "config/components/record-guard/policy.yaml",
		`  - name: annotations-change
    expression: |-
`, `  - name: annotations-change
    expression: |-
      request.operation == 'UPDATE' &&
`, "ours", 5000},
	{"17: a reboot that is found later starts the node over", "internal/gate/gate.go",
		`	if n.Watched || !n.State.Released {`, `	if MUTANT || n.Watched || !n.State.Released {`, "booting|limit", 5000},
	{"17: NoExecute does not wait until the boot is confirmed", "internal/gate/gate.go",
		`	ok, at := readiness.BootConfirmed(n.Node, n.State.Boot, n.Now)
	n.recheck(at)
	return ok`, `	ok, at := readiness.BootConfirmed(n.Node, n.State.Boot, n.Now)
	n.recheck(at)
	return MUTANT || ok`, "booting", 5000},
	{"18: a guard of a rule that is gone evicts nothing", "internal/gate/guard.go",
		`evicted := in.Evicted == nil ||`, `evicted := MUTANT || in.Evicted == nil ||`, "evicted", 5000},
	{"19: an invalid selector watches everything", "internal/ruleset/requirement.go",
		`			compiled = Requirement{Name: r.Name}`, `			compiled = Requirement{Name: r.Name}
			if MUTANT && r.Pods != nil {
				compiled.Pods = &Pods{PodsRequirement: *r.Pods, Labels: labels.Everything()}
			}`, "watched", 3000},
	{"19: evidence that cannot be read any more is believed", "internal/evidence/sources.go",
		`running.Failed(); failure != "" {`, `running.Failed(); !MUTANT && failure != "" {`, "frozen", 5000},
	{"a foreign CRD that comes back does not end the thaw", "internal/watch/rules.go",
		`		now.frozen = p //`, `		if MUTANT {
			p = now.frozen
		}
		now.frozen = p //`, "frozen", 5000},
	{"an ended guard is forgotten while its rule is frozen", "internal/guard/eviction/reconciler.go",
		`		if frozen && gate.Evicts(node) {`, `		if frozen && gate.Evicts(node) && (!MUTANT || len(ended) > 0) {`,
		"evicted", 20000},
	{"an ended guard goes on where since when the node is ready is not known", "internal/guard/guard.go",
		`in.Verdict.Ready && in.Verdict.Remembered {`, `in.Verdict.Ready && in.Verdict.Remembered && !MUTANT {`,
		"evicted", 20000},
	{"deleted rules leave their records", "internal/gate/rule.go",
		`	case in.Rule.Mode == ruleset.Deleting:
`, `	case in.Rule.Mode == ruleset.Deleting && MUTANT:
		return frozen(in, d)
	case in.Rule.Mode == ruleset.Deleting:
`, "left|frozen", 2000},
	{"the markers of a deleted rule are removed at once", "internal/taints/sweep.go",
		`|| !now.Before(until) {`, `|| MUTANT || !now.Before(until) {`, "keeps", 3000},
	{"a taint that another rule claims needs no limit", "internal/gate/gate.go",
		`	present := n.adopts()`, `	present := n.adopts() || MUTANT && n.State.Present`, "limit", 5000},
	{"an old node with pods is new to a rule if another one has tainted it", "internal/gate/gate.go",
		`n.State.Released || n.adopts() ||`, `n.State.Released || n.adopts() || MUTANT && n.State.Present ||`,
		"spared|limit", 20000},
	{"the guard of a completed rule has no end", "internal/gate/gate.go",
		`	n.recheck(n.d.Hold.RecheckAt)`, `	if !MUTANT {
		n.recheck(n.d.Hold.RecheckAt)
	}`, "evicted", 20000},
	{"in dry-run each pass finds a reboot again", "internal/gate/rule.go",
		`if w := &would.Record; r.BootID != "" {`, `if w := &would.Record; r.BootID != "" && !MUTANT {`, "quiescence", 20000},
	{"a node that is held again after its timeout waits for a restart", "internal/gate/replace.go",
		`	return !s.Released && !rec.TimedOut`, `	return (s.Claimed || !MUTANT) && !s.Released && !rec.TimedOut`,
		"replaces", 20000},
	{"any number of published conditions becomes False", "internal/fleet/marks.go",
		`	if state.places() <= 0 {`, `	if !MUTANT && state.places() <= 0 {`, "marked", 5000},
	{"a published condition is written over another one", "internal/gate/publish.go",
		`"resourceVersion": node.ResourceVersion}`,
		`"resourceVersion": map[bool]string{false: node.ResourceVersion}[MUTANT]}`, "published", 5000},
	{"replacements have no end", "internal/gate/replace.go", `Exhausted: inARow(`, `Exhausted: !MUTANT && inARow(`,
		"replaces", 5000},
	{"replacements have no limit per hour", "internal/gate/replace.go", `; end.After(now) {`,
		`; end.After(now) && !MUTANT {`, "replaces", 5000},
	{"a node under an override is handed over", "internal/gate/replace.go", `o.Action != OverrideNone {`,
		`o.Action != OverrideNone && !MUTANT {`, "replaces", 5000},
	{"a node is handed over by what was known of it before", "internal/controller/rule/replace.go",
		`	if !r.Expired(`, `	if !MUTANT && !r.Expired(`, "replaces", 5000},
	{"a node that has changed is handed over", "internal/controller/rule/replace.go",
		`"resourceVersion": node.ResourceVersion,`,
		`"resourceVersion": map[bool]string{false: node.ResourceVersion}[MUTANT],`, "replaces", 5000},
	{"a NodeClaim that was created again is deleted", "internal/controller/rule/nodeclaim.go",
		`	err := r.Live.Delete(`, `	if MUTANT { // no preconditions
		uid, version = "", ""
	}
	err := r.Live.Delete(`, "replaces", 5000},
	{"a NodeClaim that has changed is deleted", "internal/controller/rule/nodeclaim.go", `ResourceVersion: &version}`,
		`ResourceVersion: map[bool]*string{false: &version}[MUTANT]}`, "replaces", 5000},
	{"the NodeClaim that a node names is believed", "internal/controller/rule/nodeclaim.go",
		`if claim.GetUID() != owner.UID || !claims(claim, node) {`,
		`if !MUTANT && (claim.GetUID() != owner.UID || !claims(claim, node)) {`, "replaces", 5000},
	{"NodeClaims are deleted through the cache's client", "internal/operator/replica.go",
		`Live: env.Direct, Fleet`, `Live: map[bool]client.Client{false: env.Direct, true: env.Client}[MUTANT], Fleet`,
		"watched", 3000},
	{"starts are counted before they are recorded", "internal/controller/node/reconciler.go",
		`	return r.write(ctx, p, outcome)
}`, `	if MUTANT {
		r.startups.settle(node.Name, p.set, p.decisions, true, p.now)
	}
	return r.write(ctx, p, outcome)
}`, "starts", 3000},
}

// TestMutants looks whether each mutant still has its text. With -play it plays stories with each until one fails, and
// with all of them it writes the table of the README.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for i := range mutants {
		m := &mutants[i]
		file := filepath.Join(root, m.file)
		if sources[file] == "" {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources[file] = string(raw)
		}
		if n := strings.Count(sources[file], m.old); n != 1 {
			t.Fatalf("%s: the old text occurs %d times in %s", m.name, n, m.file)
		}
		if filepath.Ext(file) == ".go" {
			sources[file] = strings.Replace(sources[file], m.old,
				strings.ReplaceAll(m.new, "MUTANT", fmt.Sprintf("isMutant(%d)", i)), 1)
		}
	}
	if !*play {
		return
	}
	program, table, wanted := compile(t, root, sources), strings.Builder{}, regexp.MustCompile(*only)
	for i := range mutants {
		m := &mutants[i]
		if !wanted.MatchString(m.name) {
			continue
		}
		found, story, err := find(t, program, i, sources[filepath.Join(root, m.file)])
		predicate, why, _ := strings.Cut(found, ":")
		if err != nil || !slices.Contains(strings.Split(m.predicate, "|"), predicate) {
			t.Errorf("%s: want %s to fail, got %q (%s, %v)", m.name, m.predicate, found, story, err)
			continue
		}
		row := fmt.Sprintf("| %s | %s | `%s` |\n", m.name, story, predicate)
		t.Logf("%s%s", row, why)
		table.WriteString(row)
	}
	if *only == "" && !t.Failed() {
		writeTable(t, table.String())
	}
}

// writeTable replaces the table at the end of the README.
func writeTable(t *testing.T, rows string) {
	t.Helper()
	const file, head = "../README.md", "| Mutant | Story, or seed | Predicate |\n|---|---|---|\n"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, _, found := strings.Cut(string(raw), head)
	if !found {
		t.Fatalf("%s has no table", file)
	}
	if err := os.WriteFile(file, []byte(text+head+rows), 0o600); err != nil {
		t.Fatal(err)
	}
}

// compile builds the simulation with all mutants.
func compile(t *testing.T, root string, sources map[string]string) string {
	t.Helper()
	dir, replace, written := t.TempDir(), map[string]string{}, 0
	write := func(file, text string) {
		written++
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", written))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[file] = changed
	}
	for file, text := range sources {
		if filepath.Ext(file) != ".go" {
			continue
		}
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

// find plays stories with a mutant, first those that are kept, and returns the failure, and the story or the seed.
func find(t *testing.T, program string, n int, source string) (failed, story string, err error) {
	t.Helper()
	m := &mutants[n]
	args := []string{"-test.timeout=1h", "-first=1", "-shrink=0", fmt.Sprintf("-seeds=%d", m.seeds)}
	if filepath.Ext(m.file) == ".yaml" {
		changed := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(changed, []byte(strings.Replace(source, m.old, m.new, 1)), 0o600); err != nil {
			return "", "", err
		}
		args = append(args, "-policy="+changed)
	}
	tests := []string{"^TestScripts$", "^TestStories$"}
	if m.predicate == "starts" {
		tests = []string{"^TestStarts$"}
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
