// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

// Run is one run of the bench of the operator, as it is kept in docs/bench. The page's tables are made from these files.
type Run struct {
	Commit, Machine string
	Nodes, Rules    int
	Rounds          int
	// Evidence is what the rules go by. It is empty for a run against a synthetic server.
	Evidence string `json:",omitempty"`
	// Stolen is the CPU time in seconds that the machine's host gave to others.
	Stolen float64
	Lines  []Line
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
