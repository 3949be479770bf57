// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/nodegate/nodegate/test/bench/measure"
)

func TestAChartHasTheGreatestValueOfEachSize(t *testing.T) {
	c := charts[0]
	run := func(nodes, rules int, evidence string, lines ...measure.Line) *measure.Run {
		return &measure.Run{Nodes: nodes, Rules: rules, Evidence: evidence, Lines: lines}
	}
	runs := []*measure.Run{
		run(100, 1, "", measure.Line{Phase: "operator: rules applied", PeakMiB: 40},
			measure.Line{Phase: "operator: heartbeats only", PeakMiB: 100},
			measure.Line{Phase: "floor: rules applied", PeakMiB: 900}),
		run(1000, 10, "", measure.Line{Phase: "operator: rules applied", PeakMiB: 0}),
		run(1000, 10, "pods", measure.Line{Phase: "operator: rules applied", PeakMiB: 900}),
	}
	got := c.draw(runs)
	for _, want := range []string{
		`cx="64.0" cy="48.0"`, `cx="530.0" cy="312.0"`, ">1 rule<", ">10 rules<", ">1000<", ">100<", "(MiB)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "900") {
		t.Error("the floor is drawn, or a run on a control plane")
	}
}

func TestTheTablesAreFilled(t *testing.T) {
	third := measure.Ratio{Median: 0.3, Low: 0.2, High: 0.4, Rounds: 6}
	runs := []*measure.Run{
		{Nodes: 100, Rules: 1, Commit: "c1", Lines: []measure.Line{
			{Phase: "operator: all evidence turns good", Wall: 2, CPU: 3, Patches: 100, Events: 90, StatusWrites: 10},
			{Phase: "operator: heartbeats, and 10 changes a second", P50: 0.002, P99: 0.005, PeakMiB: 70},
			{Phase: "operator: heartbeats only", CPU: 0.4}}},
		{Nodes: 1000, Rules: 20, Rounds: 6, Machine: "m", Commit: "c2", Evidence: "pods", Lines: []measure.Line{
			{Phase: "equal-floor: all evidence turns good", PeakMiB: 50},
			{Phase: "operator: all evidence turns good", Wall: 2, Equal: measure.Ratios{Wall: third}, PeakMiB: 60}}},
		{Rounds: 3, Machine: "m", Commit: "c3", Evidence: measure.Admission, Requests: []measure.Request{
			{Kind: "heartbeat", Setup: "nothing", CPU: 2, P50: 5, P99: 9, Ratio: measure.Ratio{Median: 1, Low: 1, High: 1}},
			{Kind: "heartbeat", Setup: "policy, 1 rule", CPU: 2.5, P50: 6, P99: 20, Ratio: third},
			{Kind: "creation", Setup: "nothing"}, {Kind: "creation", Setup: "policy, 1 rule", P99: 30},
			{Kind: "binding", Setup: "nothing"}, {Kind: "binding", Setup: "all", P99: 40},
		}, Targets: []measure.Target{{Title: "t", Detail: "1.1"}}},
	}
	got, err := fill("a\n<!-- begin sizes -->\nold\n<!-- end sizes -->\nb\n<!-- begin conditions -->\n"+
		"<!-- end conditions -->\n<!-- begin pods -->\n<!-- end pods -->\nc\n<!-- begin admission -->\n"+
		"<!-- end admission -->\n", runs)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a\n<!-- begin sizes -->\n\n| Nodes", "\n<!-- end sizes -->\nb\n",
		"| 100 x 1 | 70 MiB | 0 MiB | 2 ms, 5 ms | 2.0 s, 3.0 s | 200, 100 a second | 0.0 s | 20m | c1 |\n",
		"1000 nodes, 20 rules, 6 rounds, m, 0.0 s of CPU stolen, commit c2. The operator used 60 MiB, and the equal " +
			"floor 50 MiB. Targets: wall time 1.20, p99 1.25, CPU of heartbeats 1.20.",
		"| all evidence turns good | 2.0 s, 0 ms | 0.0 s | 0.30 (0.20-0.40) |",
		"| | heartbeat | creation |\n|---|---|---|\n| nothing | 2.0, 1.00; 5, 9 | 0.0, -; 0, 0 |\n" +
			"| policy, 1 rule | 2.5, 0.30 (0.20-0.40); 6, 20 | 0.0, -; 0, 30 |\n\n| | binding |\n|---|---|\n",
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
}
