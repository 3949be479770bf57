// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	for name, test := range map[string]struct {
		phase  int
		change func(*measurement)
		want   string
	}{
		"nothing is wrong": {phase: turnedTrue},
		"a taint is missing": {phase: applied, change: func(m *measurement) { m.wrongNodes = 1 },
			want: "1 nodes do not have the right taints"},
		"a taint flaps": {phase: turnedTrue, change: func(m *measurement) { m.changes += 2 },
			want: "taints changed 102 times, at most 100 would do"},
		"one patch too many": {phase: turnedTrue, change: func(m *measurement) { m.requests = requested(kindPatch, 101) },
			want: "101 patches of 100 nodes"},
		"a patch that was refused is one, too": {phase: turnedTrue, change: func(m *measurement) {
			m.requests.received[kindRefused] = make([]time.Time, 1)
		}, want: "101 patches of 100 nodes"},
		"of rules that come one by one a node may meet each": {phase: applied, change: func(m *measurement) {
			m.requests, m.changes = requested(kindPatch, 200), 200
		}},
		"two events for a patch": {phase: turnedFalse, change: func(m *measurement) {
			m.requests.received[kindEvent] = make([]time.Time, 101)
		}, want: "101 events for 100 patches"},
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
			if err := b.check(test.phase, m); err != nil {
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
	r[operatorName][1][applied].wrong = errors.New("one patch too many")
	lines := r.lines()
	if len(lines) != len(contestants) {
		t.Fatalf("%d lines", len(lines))
	}
	got := lines[2]
	want := measure.Line{Phase: operatorName + ": " + phaseTitles[applied], Wall: 6, Events: 2,
		Until: map[string]float64{kindPatch: 0, kindEvent: 0, kindStatus: 0, kindOther: 0},
		Equal: measure.Ratios{Wall: measure.Ratio{Median: 3, Low: 2, High: 3, Rounds: 3}},
		Lean:  measure.Ratios{Wall: measure.Ratio{Median: 4, Low: 3, High: 9, Rounds: 3}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := r.complaints(); err == nil || err.Error() != phaseTitles[applied]+", round 2: one patch too many" {
		t.Error(err)
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
