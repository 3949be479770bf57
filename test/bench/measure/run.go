// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Run is one run of a bench, as it is kept in docs/bench. The page's tables are made from these files.
type Run struct {
	Commit, Machine string
	Nodes, Rules    int
	Rounds          int
	// Evidence is what the rules go by. It is empty for a run against a synthetic server, Outage for one of an outage, and
	// Admission or Agent for their benches.
	Evidence string `json:",omitempty"`
	// Stolen is the CPU time in seconds that the machine's host gave to others.
	Stolen float64
	Lines  []Line `json:",omitempty"`
	// Requests are of the bench of admission, Rows of the bench of the node agent, and Targets of both.
	Requests []Request  `json:",omitempty"`
	Rows     [][]string `json:",omitempty"`
	Targets  []Target   `json:",omitempty"`
}

// The Evidence of runs in which it makes no difference.
const (
	Admission = "admission"
	Agent     = "agent"
	Outage    = "outage"
)

// RowsTable returns the rows as a table of Markdown.
func (r *Run) RowsTable(heads ...string) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, row := range r.Rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

// Request is a kind of request in a setup of the bench of admission.
type Request struct {
	Kind, Setup string
	// CPU is the CPU time of the API server for each request, the median of all rounds. It and the latencies, which are
	// those of all requests, are in milliseconds.
	CPU, P50, P99 float64
	// Ratio compares the CPU time with that of the first setup, round by round.
	Ratio Ratio
}

// Write writes the run to a file for docs/bench, if the file has a name.
func (r *Run) Write(file string) error {
	if file == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o600)
}

// dirty ends a commit with changes that are not committed.
const dirty = "-dirty"

// Commit returns the commit of the checkout, and whether it has changes. Those of the documentation do not count: the
// numbers of the run before are there. Call it before anything is built: the checkout may move on while a bench runs.
func Commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return dirty
	}
	commit := strings.TrimSpace(string(out))
	if exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)docs").Run() != nil {
		commit += dirty
	}
	return commit
}

// Committed reports whether the run is of a commit that others can check out.
func (r *Run) Committed() bool { return r.Commit != "" && !strings.HasSuffix(r.Commit, dirty) }

// Line is a contestant in a phase: the medians of all rounds.
type Line struct {
	// Phase begins with the name of the operator, or of a floor.
	Phase string
	// Wall, P50, P99 and the CPUs are in seconds.
	Wall, P50, P99                                float64
	CPU, ControlPlaneCPU, OthersCPU               float64
	PeakMiB                                       float64
	Patches, Refused, Events, StatusWrites, Other float64
	// Until counts the requests by kind until the last taint has changed. All other counts, and the CPUs, are those until
	// all is quiet.
	Until map[string]float64 `json:",omitempty"`
	// Equal and Lean are the operator's ratios to the two floors.
	Equal, Lean Ratios `json:",omitzero"`
}

// Ratios compare the operator with a floor.
type Ratios struct{ Wall, P99, CPU, ControlPlane Ratio }

// MemoryTarget returns the MiB of memory that the operator may take at most, or 0 for a size without a target. With
// one, the operator runs with the GOMEMLIMIT that it sets itself in a container of that size.
func MemoryTarget(nodes, rules int) uint64 {
	targets := map[[2]int]uint64{{1000, 20}: 150, {5000, 50}: 300, {15000, 50}: 500, {100000, 10}: 2560}
	return targets[[2]int{nodes, rules}]
}

// Most is what the operator may take, as multiples of what the equal floor takes.
type Most struct{ Wall, P99, Heartbeats float64 }

// MostOf returns what the operator may take under so many rules.
func MostOf(rules int) Most {
	if rules == 1 {
		return Most{Wall: 1.1, P99: 1.15, Heartbeats: 1.2}
	}
	return Most{Wall: 1.2, P99: 1.25, Heartbeats: 1.2}
}
