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
	"strings"
	"testing"
)

var (
	run  = flag.Bool("mutants", false, "compile and run the mutants")
	only = flag.String("only", "", "run only the mutant of this name")
)

// mutant is one change of the operator. Old must occur exactly once in the file.
type mutant struct {
	name, file, old, new string
	// predicate is the one that must fail, in stories or in a script.
	predicate string
	// seeds is how many stories that may take; 0: a script of testdata fails.
	seeds int
}

var mutants = []mutant{
	{"patch without the test of the UID", "internal/taints/patch.go",
		`		{Op: "test", Path: "/metadata/uid", Value: raw(node.UID)},
`, ``, "ours", 3000},
	{"patch without the test of the taints", "internal/taints/patch.go",
		`		{Op: "test", Path: "/spec/taints", Value: rawTaints(node.Spec.Taints)},
`, ``, "", 3000},
	{"the limit is always granted", "internal/fleet/budget.go",
		`	if room <= 0 || `, `	if false && room <= 0 || false && `, "limit", 1500},
	{"rules act before their evidence has been read", "internal/evidence/sources.go",
		`		return ReasonPending, "has not been read yet"`, `		return "", ""`, "frozen", 500},
	{"suspended rules claim", "internal/gate/gate.go",
		`func (g *gate) enforced() bool { return g.Rule.Mode != ruleset.Suspended }`,
		`func (g *gate) enforced() bool { return true }`, "closed", 1500},
	{"claims are kept when a node leaves the selector", "internal/controller/rule/reconciler.go",
		`	controllerutil.RemoveFinalizer(rule, v1alpha1.Finalizer)
	if err := r.patchFinalizers`, `	if err := r.patchFinalizers`, "gone", 500},
	{"an echo is any version", "internal/controller/node/own.go", ``, ``, "", 0},
}

// TestMutants compiles each mutant with an overlay.
func TestMutants(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.old); n != 1 {
			t.Errorf("%s: the old text occurs %d times in %s", m.name, n, m.file)
			continue
		}
		if !*run || *only != "" && *only != m.name {
			continue
		}
		found, err := play(t, root, &m, string(source))
		if err != nil || m.predicate != "" && !strings.HasPrefix(found, m.predicate+":") {
			t.Errorf("%s: want %s to fail, got %q (%v)", m.name, m.predicate, found, err)
			continue
		}
		t.Logf("%-50s %s", m.name, found)
	}
}

var failure = regexp.MustCompile(`(?m)^\s*simulation_test\.go:\d+: (seed \d+): (.*)$`)

// play runs the simulation with a mutant and returns the seed and the failure that it found.
func play(t *testing.T, root string, m *mutant, source string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(strings.Replace(source, m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	file, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, raw, 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "test", "-overlay", overlay, "./test/simulation", "-count=1", "-run", "TestStories", //nolint:gosec // own tests
		"-args", "-first=1", fmt.Sprintf("-seeds=%d", m.seeds))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	match := failure.FindStringSubmatch(string(out))
	switch {
	case err == nil:
		return "", nil
	case match == nil:
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return match[2] + " (" + match[1] + ")", nil
}
