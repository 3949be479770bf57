// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
)

// good are results in which every target is reached: the operator takes as long as the floor, and does what it should.
func good(nodes, rules int) *results {
	r := &results{options: &options{nodes: nodes, rules: rules, rounds: 6, heartbeats: 6}}
	for _, name := range contestants {
		var phases []*measurement
		for phase := range phaseCount {
			m := &measurement{wall: time.Second, p99: time.Second, usage: measure.Usage{Contestant: time.Second}}
			switch {
			case phase < beating:
				m.requests.nodePatches, m.requests.all, m.changes = nodes, nodes, nodes
			case phase == restarted:
				m.requests.nodePatches, m.changes = 1, 1
			}
			if name == operatorName {
				switch phase {
				case turnedTrue:
				case restarted:
					m.wantHeld = nodes - 1
				default:
					m.wantHeld = nodes
				}
				m.rules = []ruleStatus{{name: "r", nodes: v1alpha1.NodeCounts{
					Matched: int32(nodes), Held: int32(m.wantHeld), Ready: int32(nodes - m.wantHeld)}}}
			}
			phases = append(phases, m)
		}
		for range r.rounds { // all alike
			r.add(name, phases)
		}
	}
	return r
}

func TestVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		rules       int
		change      func(operator [phaseCount][]*measurement)
		notReached  []string
		wantsMissed bool
	}{
		"all is reached": {},
		"slow, which is timed": {
			change: func(o [phaseCount][]*measurement) {
				o[turnedTrue][0].wall, o[turnedFalse][0].p99 = 1101*time.Millisecond, 2*time.Second
			},
			notReached: []string{"wall time", "p99"},
		},
		"exactly as long as it may take": {
			change: func(o [phaseCount][]*measurement) { o[applied][0].wall = 1100 * time.Millisecond },
		},
		"one round of six that is slow does not decide": {
			change: func(o [phaseCount][]*measurement) {
				slow := *o[applied][5]
				slow.wall = 2 * time.Second
				o[applied][5] = &slow
			},
			notReached: []string{"undecided: wall time"},
		},
		"memory that grows with each burst": {
			change:     func(o [phaseCount][]*measurement) { o[applied][0].peak, o[turnedFalse][0].peak = 100, 120 },
			notReached: []string{"the third burst"},
		},
		"two events for a patch": {
			change:     func(o [phaseCount][]*measurement) { o[turnedTrue][0].requests.events = 101 },
			notReached: []string{"at most one event"}, wantsMissed: true,
		},
		"a restart that writes": {
			change:     func(o [phaseCount][]*measurement) { o[restarted][0].idleWrites = 1 },
			notReached: []string{"a restart"}, wantsMissed: true,
		},
		"a restart that is slow": {
			change:     func(o [phaseCount][]*measurement) { o[restarted][0].wall = 11 * time.Second },
			notReached: []string{"a restart"}, wantsMissed: true,
		},
		"busy with heartbeats": {
			change:     func(o [phaseCount][]*measurement) { o[beating][0].usage.Contestant = 1201 * time.Millisecond },
			notReached: []string{"CPU for heartbeats"},
		},
		"one patch too many": {
			change:     func(o [phaseCount][]*measurement) { o[turnedTrue][0].requests.nodePatches++ },
			notReached: []string{"one node patch"}, wantsMissed: true,
		},
		"a patch that was refused is one, too": {
			change:     func(o [phaseCount][]*measurement) { o[turnedTrue][0].requests.refused++ },
			notReached: []string{"one node patch"}, wantsMissed: true,
		},
		"of several rules that come one by one a node may meet each": {
			rules: 2,
			change: func(o [phaseCount][]*measurement) {
				o[applied][0].requests.nodePatches *= 2
				o[applied][0].changes *= 2
			},
		},
		"but not when they change together": {
			rules:      2,
			change:     func(o [phaseCount][]*measurement) { o[turnedTrue][0].requests.nodePatches *= 2 },
			notReached: []string{"one node patch"}, wantsMissed: true,
		},
		"a request for a heartbeat": {
			change:     func(o [phaseCount][]*measurement) { o[beating][0].requests.all = 1 },
			notReached: []string{"no request"}, wantsMissed: true,
		},
		"a taint that is missing": {
			change:     func(o [phaseCount][]*measurement) { o[applied][0].wrong = 1 },
			notReached: []string{"every taint"}, wantsMissed: true,
		},
		"a taint that flaps": {
			change:     func(o [phaseCount][]*measurement) { o[turnedTrue][0].changes += 2 },
			notReached: []string{"every taint"}, wantsMissed: true,
		},
		"a status that is behind": {
			change:     func(o [phaseCount][]*measurement) { o[turnedTrue][0].rules[0].nodes.Ready-- },
			notReached: []string{"every taint"}, wantsMissed: true,
		},
		"status writes in a row": {
			change: func(o [phaseCount][]*measurement) {
				now := time.Now()
				o[applied][0].requests.statusTimes = map[string][]time.Time{"r": {now, now.Add(500 * time.Millisecond)}}
			},
			notReached: []string{"status writes"}, wantsMissed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := good(100, max(1, test.rules))
			if test.change != nil {
				test.change(r.measured[operatorName])
			}
			var got []string
			missed := false
			for _, target := range r.targets() {
				switch {
				case target.Undecided:
					got = append(got, "undecided: "+target.Title)
				case !target.Reached:
					got = append(got, target.Title)
					missed = missed || target.Counted
				}
			}
			if missed != test.wantsMissed {
				t.Errorf("missed: %v", missed)
			}
			if len(got) != len(test.notReached) {
				t.Fatalf("not reached: %q", got)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], test.notReached[i]) {
					t.Errorf("got %q, want %q", got[i], test.notReached[i])
				}
			}
		})
	}
}

func TestTheTargetForMemoryHoldsInEachRound(t *testing.T) {
	r := good(1000, 20)
	much := *r.measured[operatorName][turnedTrue][3]
	much.peak = 151 << 20
	r.measured[operatorName][turnedTrue][3] = &much
	if got := r.memory()[0]; got.Reached || got.Detail != "151 MiB" {
		t.Errorf("%+v", got)
	}
}

func TestPaceComplaint(t *testing.T) {
	start := time.Now()
	at := func(seconds ...float64) (out []time.Time) {
		for _, s := range seconds {
			out = append(out, start.Add(time.Duration(s*float64(time.Second))))
		}
		return out
	}
	many := map[string][]time.Time{}
	for i := range 60 {
		many[ruleName(i)] = at(float64(i) / 100)
	}
	for name, test := range map[string]struct {
		times map[string][]time.Time
		fine  bool
	}{
		"none":                    {nil, true},
		"every two seconds":       {map[string][]time.Time{"r": at(0, 2, 4, 6)}, true},
		"one was long on its way": {map[string][]time.Time{"r": at(0.9, 2, 4, 6)}, true},
		"every one and a half":    {map[string][]time.Time{"r": at(0, 1.5, 3, 4.5)}, false},
		"two at once":             {map[string][]time.Time{"r": at(0, 0.2)}, false},
		"not in order":            {map[string][]time.Time{"r": at(4, 0, 2)}, true},
		"two rules, each its own": {map[string][]time.Time{"r": at(0, 2), "s": at(0.1, 2.1)}, true},
		"sixty rules in a half":   {many, false},
		"a burst": {map[string][]time.Time{"a": at(0), "b": at(0), "c": at(0), "d": at(0.1), "e": at(0.1)},
			true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := paceComplaint(test.times); (got == "") != test.fine {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestTheTableComparesTheOperatorWithTheFloors(t *testing.T) {
	out := &strings.Builder{}
	r := good(100, 1)
	if err := r.print(out, r.result(r.lines())); err != nil {
		t.Error(err)
	}
	row := "| all evidence turns good | 1.0 s, 1000 ms | 1.0 s | 1.00, reached | 1.00, reached | 1.00 | 1.00 | 1.00 | - |"
	for _, want := range []string{"Targets\n  reached ", row + " 0 of 100 | 0 of 0 | 0 of 0 |\n"} {
		if got := out.String(); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
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
