// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mutants

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

var only = flag.String("only", "", "run only the mutant of this name")

// mutant is one change of the operator. Old must occur exactly once in the file.
type mutant struct {
	name, file, old, new string
	// predicate is the one that must fail, or several, any of which may fail first.
	predicate string
	// seeds is how many stories that may take.
	seeds int
}

var mutants = []mutant{
	{"patches without the test of the UID", "internal/taints/patch.go",
		`		{Op: "test", Path: "/metadata/uid", Value: raw(node.UID)},
`, ``, "ours", 5000},
	{"the limit is always granted", "internal/fleet/limit.go",
		`	if room <= 0 || len(b.waiting) > room && !slices.Contains(b.longest(room), node) {
		return false`, `	if room <= 0 || len(b.waiting) > room && !slices.Contains(b.longest(room), node) {
		return true`, "limit", 3000},
	{"rules act before their evidence has been read", "internal/evidence/sources.go",
		`		return ReasonPending, "has not been read yet"`, `		return "", ""`, "frozen", 1000},
	{"suspended rules claim", "internal/gate/rule.go", `	case in.Rule.Inert():
		return frozen(in, d)`, `	case in.Rule.Mode == ruleset.Frozen:
		return frozen(in, d)`, "frozen", 3000},
	{"1: a rule that requires a frozen rule acts", "internal/ruleset/order.go",
		`	if !dependents {
		return s`, `	if dependents || !dependents {
		return s`, "frozen", 3000},
	{"2: a pod that started before the boot was seen never counts", "internal/readiness/boot.go",
		`	case boot == settled || boot == final:
		return true
	case !b.Former.IsZero() && allStarted(pod, func(at time.Time) bool { return at.Before(b.Former) }):
		return false
	case boot == confirmed:
		return true
`, `	case boot == settled:
		return true
`, "taints|marker", 5000},
	{"3: admission taints in a kubelet's update", "internal/admission/node/webhook.go",
		`req.Operation == admissionv1.Update && slices.Contains(`,
		`req.Operation == admissionv1.Connect && slices.Contains(`, "labelled", 3000},
	{"4: an old node with pods is new to a rule", "internal/gate/gate.go",
		`return n.Occupied != nil && n.adds()`, `return n.Occupied == nil && n.adds()`, "spared", 3000},
	{"5: a kubelet may overrule rules", "config/components/record-guard/policy.yaml",
		`      !variables.restricted ||
`, `      true ||
`, "overruled", 1000},
	{"8: evictions write through the cache's client", "internal/operator/replica.go",
		`Live: env.Direct, Rules`, `Live: env.Client, Rules`, "watched", 3000},
	{"9: one refused eviction ends the others", "internal/guard/eviction/reconciler.go",
		`case refuses(err):`, `case refuses(err) && next.IsZero() && false:`, "evicted", 5000},
	{"10: a rule that was pruned stays so where its generation is the same", "internal/ruleset/rule.go",
		`equality.Semantic.DeepEqual(r.Spec, o.Spec)`, `equality.Semantic.DeepEqual(r.Spec, r.Spec)`,
		"taints|marker|blamed|status|room|gone", 5000},
	{"10: rules are not read again when the CRD is ours again", "internal/watch/rules.go",
		`	for i := range rules {
		before`, `	for i := range rules[:0] {
		before`, "taints|marker|blamed|status|room|gone", 5000},
	{"14: records in new nodes are not looked at", "config/components/record-guard/policy.yaml",
		`  - name: annotations-change
    expression: |-
`, `  - name: annotations-change
    expression: |-
      request.operation == 'UPDATE' &&
`, "ours", 5000},
	{"17: a reboot that is found later starts the node over", "internal/gate/gate.go",
		`	if n.Watched || !n.State.Released {`, `	if n.d.Rearmed {`, "booting|limit", 5000},
	{"17: NoExecute does not wait until the boot is confirmed", "internal/gate/gate.go",
		`	ok, at := readiness.BootConfirmed(n.Node, n.State.Boot, n.Now)
	n.recheck(at)
	return ok`, `	_, at := readiness.BootConfirmed(n.Node, n.State.Boot, n.Now)
	n.recheck(at)
	return true`, "booting", 5000},
	{"18: a guard of a rule that is gone evicts nothing", "internal/gate/guard.go",
		`evicted := in.Evicted == nil ||`, `evicted := true || in.Evicted == nil ||`, "evicted", 5000},
	{"a foreign CRD that comes back does not end the thaw", "internal/watch/rules.go",
		`		r.frozen = p // another`, `		// another`, "frozen", 5000},
	{"an ended guard is forgotten while its rule is frozen", "internal/guard/eviction/reconciler.go",
		`		if frozen && evicts(node) {`, `		if frozen && len(ended) > 0 {`, "evicted", 20000},
	{"19: an invalid selector watches everything", "internal/evidence/sources.go",
		`case r.Pods != nil && selectsNothing(r.Pods):`, `case false:`, "watched", 3000},
	{"19: evidence that cannot be read any more is believed", "internal/evidence/sources.go",
		`case running != nil && running.Failed() != "":`, `case false:`, "frozen", 5000},
	{"deleted rules leave their records", "internal/gate/rule.go",
		`		return departed(in, Decision{Rule: in.Rule, Was: in.State})
	case`, `		return frozen(in, Decision{Rule: in.Rule, Was: in.State})
	case`, "left", 2000},
}

// TestMutants compiles each mutant with an overlay.
func TestMutants(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Fatal(err)
		}
		if *only != "" && *only != m.name {
			continue
		}
		if n := strings.Count(string(source), m.old); n != 1 {
			t.Errorf("%s: the old text occurs %d times in %s", m.name, n, m.file)
			continue
		}
		found, err := play(t, root, &m, string(source))
		if err != nil || !slices.Contains(strings.Split(m.predicate, "|"), found[:max(0, strings.Index(found, ":"))]) {
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
	changed, overlay := filepath.Join(dir, "changed"+filepath.Ext(m.file)), filepath.Join(dir, "overlay.json")
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
	args := []string{"test", "-vet=off", "-overlay", overlay, "./test/simulation", "-count=1", "-run", "TestStories$",
		"-args", "-first=1", fmt.Sprintf("-seeds=%d", m.seeds)}
	if filepath.Ext(m.file) == ".yaml" {
		args = append(args, "-policy="+changed)
	}
	cmd := exec.Command("go", args...)
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
