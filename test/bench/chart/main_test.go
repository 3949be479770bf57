// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestAChartHasTheGreatestValueOfEachSize(t *testing.T) {
	c := charts[0]
	lines := []line{
		{Nodes: 100, Rules: 1, Phase: "operator: rules applied", PeakMiB: 40},
		{Nodes: 100, Rules: 1, Phase: "operator: heartbeats only", PeakMiB: 100},
		{Nodes: 100, Rules: 1, Phase: "floor: rules applied", PeakMiB: 900},
		{Nodes: 1000, Rules: 10, Phase: "operator: rules applied", PeakMiB: 0},
	}
	got := c.draw(lines)
	for _, want := range []string{
		`cx="64.0" cy="48.0"`, `cx="530.0" cy="312.0"`, ">1 rule<", ">10 rules<", ">1000<", ">100<", "(MiB)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "900") {
		t.Error("the floor is drawn")
	}
}
