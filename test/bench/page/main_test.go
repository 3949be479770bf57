// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/nodegate/nodegate/test/bench/measure"
)

// lines are those of a run against a synthetic server.
func lines(of ...measure.Line) []measure.Line {
	for _, phase := range []string{"operator: all evidence turns good", "operator: heartbeats, and 10 changes a second",
		"operator: heartbeats only", "operator: restart, then one change", "standby: all nodes listed again"} {
		of = append(of, measure.Line{Phase: phase})
	}
	return of
}

func TestTheTablesAreFilled(t *testing.T) {
	third := measure.Ratio{Median: 0.3, Low: 0.2, High: 0.4, Rounds: 6}
	runs := []*measure.Run{
		{Nodes: 100, Rules: 1, Commit: "c1", Stolen: 4, Lines: lines(
			measure.Line{Phase: "operator: all evidence turns good", Wall: 2, CPU: 3, OthersCPU: 0.3, Patches: 100,
				Events: 90, StatusWrites: 10},
			measure.Line{Phase: "operator: heartbeats, and 10 changes a second", P50: 0.002, P99: 0.005, PeakMiB: 70},
			measure.Line{Phase: "operator: heartbeats only", CPU: 0.4},
			measure.Line{Phase: "operator: restart, then one change", Wall: 0.2, P50: 0.5, P99: 0.5})},
		{Nodes: 5000, Rules: 50, Commit: "c4", Lines: lines(measure.Line{Phase: "operator: rules applied", PeakMiB: 300})},
		{Nodes: 15000, Rules: 50, Commit: "c5", Lines: lines(measure.Line{Phase: "operator: rules applied", PeakMiB: 501})},
		{Nodes: 5000, Rules: 10, Commit: "c6", Evidence: measure.Outage, Lines: []measure.Line{
			{Phase: "operator: all evidence turns bad", CPU: 10, Patches: 5000, PeakMiB: 1000},
			{Phase: "operator: the same again: good", CPU: 9}, {Phase: "operator: its end", CPU: 3},
			{Phase: "operator: outage under maxUnavailable", CPU: 4.5, Patches: 1500}}},
		{Nodes: 1000, Rules: 20, Rounds: 6, Machine: "m", Commit: "c2", Evidence: "conditions", Lines: []measure.Line{
			{Phase: "equal-floor: all evidence turns good", PeakMiB: 50, OthersCPU: 0.4},
			{Phase: "lean-floor: all evidence turns good", OthersCPU: 0.3, Each: measure.Series{OthersCPU: []float64{2.5, 0.1}}},
			{Phase: "operator: all evidence turns good", Wall: 2, CPU: 1, PeakMiB: 60, P99: 1,
				ControlPlaneCPU: 7, Patches: 5, Equal: measure.Ratios{Wall: third, P99: third, CPU: third},
				Lean:     measure.Ratios{Wall: third, P99: third, CPU: third},
				LeanMost: measure.Guarded{Wall: 0.5, P99: 0.1}},
			{Phase: "operator: heartbeats only", Wall: 3, CPU: 1,
				Equal: measure.Ratios{Wall: third, CPU: third}, Lean: measure.Ratios{Wall: third}},
			{Phase: "operator: a restart, then one change", Wall: 4, CPU: 1}}},
		{Rounds: 3, Machine: "m", Commit: "c3", Evidence: measure.Admission, Requests: []measure.Request{
			{Kind: "heartbeat", Setup: "nothing", CPU: 2, P50: 5, P99: 9, Ratio: measure.Ratio{Median: 1, Low: 1, High: 1}},
			{Kind: "heartbeat", Setup: "policy, 1 rule", CPU: 2.5, P50: 6, P99: 20, Ratio: third},
			{Kind: "creation", Setup: "nothing"}, {Kind: "creation", Setup: "policy, 1 rule", P99: 30},
			{Kind: "binding", Setup: "nothing"}, {Kind: "binding", Setup: "all", P99: 40},
		}, Targets: []measure.Target{{Title: "t", Detail: "1.1"}}},
		{Rounds: 5, Machine: "m", Commit: "c7", Evidence: measure.Agent, Rows: [][]string{{"latency", "2", "1", "2.00"}}},
	}
	runs[4].Planned, runs[4].GuardedBy = 12, "commit c0"
	got, err := fill("a\n<!-- begin sizes -->\nold\n<!-- end sizes -->\nb\n<!-- begin outage -->\n<!-- end outage -->\n"+
		"<!-- begin conditions -->\n<!-- end conditions -->\n<!-- begin pods -->\n<!-- end pods -->\nc\n"+
		"<!-- begin admission -->\n<!-- end admission -->\n<!-- begin agent -->\n<!-- end agent -->\n", runs)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a\n<!-- begin sizes -->\n\n| Nodes", "\n<!-- end sizes -->\nb\n",
		// The clock stops at the last patch, and most events come later. A restart begins with the process.
		"| 100 x 1 | 70 MiB | 0 MiB | 2 ms, 5 ms | 2.0 s, 50 | 3.0 s, 200 | 0.5 s | 20m | 4.0 s, 0.3 s | c1 |\n",
		"| 5000 x 50 | 300 MiB of 300, reached |", "| 15000 x 50 | **501 MiB of 500, missed** |",
		"| 5000 x 10 | 10.0 s, 2.0 ms | 9.0 s | 4.5 s, 3.0 ms | 3.0 s | 0.0 s, - | c6 |\n",
		"1000 nodes, 20 rules, 6 rounds of 12, m, 0.0 s of CPU stolen, at most 2.5 s of CPU by all others in a phase, " +
			"commit c2. The operator used 60 MiB of 150, reached, and the equal floor 50 MiB. Targets: wall time 1.20, p99 " +
			"1.25, CPU of heartbeats 1.20. Ratios to the lean floor: at most a tenth above those of commit c0.\n\n| Phase",
		"| all evidence turns good | 2.0 s, 1000 ms | 0.30 (0.20-0.40), reached | 0.30 (0.20-0.40), reached | 1.0 s | " +
			"0.30 (0.20-0.40) | 7.0 s | - |\n",
		"| heartbeats only | 3.0 s | - | - | 1.0 s | 0.30 (0.20-0.40), reached | 0.0 s | - |\n",
		"| a restart, then one change | 4.0 s | - | - | - | - | - | - |\n",
		"| all evidence turns good | 0.30 (0.20-0.40), within (at most 0.50) | **0.30 (0.20-0.40), regression** (at most " +
			"0.10) | 0.30 (0.20-0.40) | - | 5 | 0 | 0 | 0 |\n",
		"| heartbeats only | - | - | - | - | 0 | 0 | 0 | 0 |\n",
		"medians of the rounds.\n\n|  | Agent | Constant | Ratio |\n|---|---|---|---|\n| latency | 2 | 1 | 2.00 |\n",
		"<!-- begin pods -->\n\n" + none + "\n<!-- end pods -->", "3 rounds, m, 0.0 s of CPU stolen, commit c3. Each",
		"|  | heartbeat | creation |\n|---|---|---|\n| nothing | 2.0, 1.00; 5, 9 | 0.0, -; 0, 0 |\n" +
			"| policy, 1 rule | 2.5, 0.30 (0.20-0.40); 6, 20 | 0.0, -; 0, 30 |\n\n|  | binding |\n|---|---|\n",
		"| all | 0.0, -; 0, 40 |\n\n| Target | Measured |\n|---|---|\n| t | 1.1, NOT reached |\n\n<!-- end admission -->",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "old") {
		t.Error("the old table is still there")
	}
	if _, err := fill("a page without tables", runs); err == nil {
		t.Error("no error about a page without tables")
	}
	for _, evidence := range []string{"", measure.Outage} {
		run := &measure.Run{Commit: "c1", Evidence: evidence, Lines: lines()[1:]}
		if _, err := fill(got, []*measure.Run{run}); err == nil || !strings.Contains(err.Error(), "no phase ") {
			t.Errorf("a phase has another name: %v", err)
		}
	}
}

func TestARowIsOfACommitAndOfARunWithoutComplaints(t *testing.T) {
	for want, run := range map[string]*measure.Run{
		`commit "0123456789ab-dirty"`: {Commit: "0123456789ab-dirty"}, `commit ""`: {},
		"c1 failed: one patch too many": {Commit: "c1", Complaints: []string{"one patch too many"}},
	} {
		if _, err := fill("", []*measure.Run{run}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
