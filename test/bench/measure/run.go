// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
)

// Run is one run of a bench, as it is kept in docs/bench. The page's tables are made from these files.
type Run struct {
	Commit, Machine string
	Nodes, Rules    int
	Rounds          int
	// Evidence is what the rules go by. It is empty for a run against a synthetic server, and Admission for the bench of
	// admission.
	Evidence string `json:",omitempty"`
	// Stolen is the CPU time in seconds that the machine's host gave to others.
	Stolen float64
	Lines  []Line `json:",omitempty"`
	// Requests and Targets are of the bench of admission, which has no lines.
	Requests []Request `json:",omitempty"`
	Targets  []Target  `json:",omitempty"`
}

// Admission is the Evidence of a run of the bench of admission.
const Admission = "admission"

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

// Commit returns the commit of the checkout, and whether it has changes.
func Commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=12", "--dirty", "--match=").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

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

// Most is what the operator may take, as multiples of what the equal floor takes.
type Most struct{ Wall, P99, Heartbeats float64 }

// MostOf returns what the operator may take under so many rules.
func MostOf(rules int) Most {
	if rules == 1 {
		return Most{Wall: 1.1, P99: 1.15, Heartbeats: 1.2}
	}
	return Most{Wall: 1.2, P99: 1.25, Heartbeats: 1.2}
}
