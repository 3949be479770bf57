// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
)

// requested returns so many requests of a kind.
func requested(kind string, n int) requests {
	return requests{received: map[string][]time.Time{kind: make([]time.Time, n)}}
}

func TestCheck(t *testing.T) {
	const nodes = 100
	b := &bench{Run: &measure.Run{Nodes: nodes, Rules: 2}}
	events := func(n int) func(*measurement) {
		return func(m *measurement) { m.requests.received[kindEvent] = make([]time.Time, n) }
	}
	twice := func(m *measurement) { m.requests, m.changes = requested(kindPatch, 2*nodes), 2*nodes }
	for name, test := range map[string]struct {
		floor  string
		phase  int
		change func(*measurement)
		want   string
	}{
		"the equal floor sends an event for each node": {floor: equalName, phase: applied, change: events(nodes)},
		"the equal floor misses one": {floor: equalName, phase: turnedFalse, change: events(nodes - 1),
			want: "99 events for 100 patches"},
		"the lean floor sends one":           {leanName, turnedTrue, events(1), "1 events for 100 patches"},
		"a floor taints each node only once": {leanName, applied, twice, "taints changed 200 times, at most 100 would do"},
		"nothing is wrong":                   {phase: turnedTrue},
		"a taint is missing": {phase: applied, change: func(m *measurement) { m.wrongNodes = 1 },
			want: "1 nodes do not have the right taints"},
		"a taint flaps": {phase: turnedTrue, change: func(m *measurement) { m.changes += 2 },
			want: "taints changed 102 times, at most 100 would do"},
		"one patch too many": {phase: turnedTrue, change: func(m *measurement) { m.requests = requested(kindPatch, 101) },
			want: "101 patches of 100 nodes"},
		"a patch that was refused is one, too": {phase: turnedTrue, change: func(m *measurement) {
			m.requests.received[kindRefused] = make([]time.Time, 1)
		}, want: "101 patches of 100 nodes"},
		"of rules that come one by one a node may meet each": {phase: applied, change: twice},
		"two events for a patch": {phase: turnedFalse, change: events(nodes + 1),
			want: "101 events for 100 patches"},
		"a request for a heartbeat": {phase: beating, change: func(m *measurement) {
			m.requests = requested(kindOther, 1)
		}, want: "requests for heartbeats: "},
		"a restart that writes": {phase: restarted, change: func(m *measurement) { m.idleWrites = 1 },
			want: "1 writes after a restart with nothing to do"},
		"a restart that is slow": {phase: restarted, change: func(m *measurement) { m.wall = 11 * time.Second },
			want: "the first patch 11s after the start"},
		"a status that is behind": {phase: applied, change: func(m *measurement) {
			m.rules["r"] = v1alpha1.NodeCounts{Matched: nodes, Ready: nodes}
		}, want: "the status of rule r has "},
	} {
		t.Run(name, func(t *testing.T) {
			m := &measurement{changes: nodes, requests: requested(kindPatch, nodes)}
			held := int32(nodes)
			switch test.phase {
			case turnedTrue:
				held = 0
			case beating:
				m.changes, m.requests = 0, requested(kindPatch, 0)
			case restarted:
				held--
				m.changes, m.requests = 1, requested(kindPatch, 1)
			}
			m.rules = map[string]v1alpha1.NodeCounts{"r": {Matched: nodes, Ready: nodes - held, Held: held}}
			if test.change != nil {
				test.change(m)
			}
			got := ""
			if err := b.check(cmp.Or(test.floor, operatorName), test.phase, m); err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLinesCompareTheOperatorWithTheFloorsRoundByRound(t *testing.T) {
	r := results{}
	for _, round := range []struct{ operator, equal, lean time.Duration }{{4, 2, 1}, {6, 2, 2}, {9, 3, 1}} {
		for name, wall := range map[string]time.Duration{
			operatorName: round.operator, equalName: round.equal, leanName: round.lean,
		} {
			r[name] = append(r[name], []*measurement{{wall: wall * time.Second, requests: requested(kindEvent, 2)}})
		}
	}
	r[leanName][1][applied].wrong = errors.New("one patch too many")
	lines := r.lines()
	if len(lines) != len(contestants) {
		t.Fatalf("%d lines", len(lines))
	}
	got, zero := lines[2], make([]float64, 3)
	want := measure.Line{Phase: operatorName + ": " + phaseTitles[applied], Wall: 6, Events: 2,
		Until: map[string]float64{kindPatch: 0, kindEvent: 0, kindStatus: 0, kindOther: 0},
		Each:  measure.Series{Wall: []float64{4, 6, 9}, P99: zero, CPU: zero, ControlPlaneCPU: zero, OthersCPU: zero},
		Equal: measure.Ratios{Wall: measure.Ratio{Median: 3, Low: 2, High: 3, Rounds: 3}},
		Lean:  measure.Ratios{Wall: measure.Ratio{Median: 4, Low: 3, High: 9, Rounds: 3}}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	complaint := leanName + ": " + phaseTitles[applied] + ", round 2: one patch too many"
	if got := r.complaints(); !slices.Equal(got, []string{complaint}) {
		t.Error(got)
	}
}

func TestARestartEndsWhenTheFirstNodeHasNoTaints(t *testing.T) {
	o := newObserver(2)
	for _, o.taints = range [][]int{{2, 2}, {2, 0}, {1, 2}, {0, 2}} {
		if done := o.untainted(0) == nil; done != (o.taints[0] == 0) {
			t.Errorf("done: %t, with the taints %v", done, o.taints)
		}
	}
}

func TestEachContestantIsFirstInTwoOfSixRounds(t *testing.T) {
	first, orders := map[string]int{}, map[string]bool{}
	for round := range 6 {
		names := order(round)
		first[names[0]]++
		orders[strings.Join(names, " ")] = true
	}
	if len(orders) != 6 || len(first) != 3 || first[operatorName] != 2 {
		t.Errorf("%v, %v", orders, first)
	}
}
