// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/bench/measure"
)

// results are the measurements of all contestants: by name, round and phase. The floors do not have the last phase.
type results map[string][][]*measurement

// complaints returns what the operator did wrong.
func (r results) complaints() error {
	var all []error
	for round, phases := range r[operatorName] {
		for phase, m := range phases {
			if m.wrong != nil {
				all = append(all, fmt.Errorf("%s, round %d: %w", phaseTitles[phase], round+1, m.wrong))
			}
		}
	}
	return errors.Join(all...)
}

// series is one number of a contestant in a phase, round by round.
func (r results) series(name string, phase int, get func(*measurement) float64) (out []float64) {
	for _, phases := range r[name] {
		if phase < len(phases) {
			out = append(out, get(phases[phase]))
		}
	}
	return out
}

func wall(m *measurement) float64         { return m.wall.Seconds() }
func p50(m *measurement) float64          { return m.p50.Seconds() }
func p99(m *measurement) float64          { return m.p99.Seconds() }
func cpu(m *measurement) float64          { return m.usage.Contestant.Seconds() }
func controlPlane(m *measurement) float64 { return m.usage.ControlPlane.Seconds() }
func peak(m *measurement) float64         { return float64(m.peak) / (1 << 20) }

func (r results) lines() []measure.Line {
	var out []measure.Line
	for _, name := range contestants {
		for phase := range r[name][0] {
			get := func(f func(*measurement) float64) float64 { return measure.Median(r.series(name, phase, f)) }
			count := func(kind string) float64 {
				return get(func(m *measurement) float64 { return float64(m.requests.count(kind)) })
			}
			line := measure.Line{
				Phase: name + ": " + phaseTitles[phase],
				Wall:  get(wall), P50: get(p50), P99: get(p99), CPU: get(cpu), PeakMiB: get(peak),
				ControlPlaneCPU: get(controlPlane),
				OthersCPU:       get(func(m *measurement) float64 { return m.usage.Others.Seconds() }),
				Patches:         count(kindPatch), Refused: count(kindRefused), Events: count(kindEvent),
				StatusWrites: count(kindStatus), Other: count(kindOther),
			}
			if phase < beating {
				line.Until = map[string]float64{}
				for _, kind := range []string{kindPatch, kindEvent, kindStatus, kindOther} {
					line.Until[kind] = get(func(m *measurement) float64 { return float64(m.requests.until(kind, m.last)) })
				}
			}
			if name == operatorName {
				line.Equal, line.Lean = r.ratios(phase, equalName), r.ratios(phase, leanName)
			}
			out = append(out, line)
		}
	}
	return out
}

// ratio compares the operator with a floor.
func (r results) ratio(phase int, floor string, get func(*measurement) float64) measure.Ratio {
	return measure.RatioOf(r.series(operatorName, phase, get), r.series(floor, phase, get))
}

func (r results) ratios(phase int, floor string) measure.Ratios {
	return measure.Ratios{Wall: r.ratio(phase, floor, wall), P99: r.ratio(phase, floor, p99),
		CPU: r.ratio(phase, floor, cpu), ControlPlane: r.ratio(phase, floor, controlPlane)}
}

// summary is one line about a measurement, for the progress.
func (m *measurement) summary() string {
	s := &strings.Builder{}
	fmt.Fprintf(s, "%.2f s, p99 %.0f ms, %.2f s CPU, %d node patches, %d events, %d status writes",
		m.wall.Seconds(), m.p99.Seconds()*1000, m.usage.Contestant.Seconds(), m.requests.count(kindPatch),
		m.requests.count(kindEvent), m.requests.count(kindStatus))
	for _, what := range slices.Sorted(maps.Keys(m.requests.other)) {
		fmt.Fprintf(s, ", %d x %s", m.requests.other[what], what)
	}
	return s.String()
}

// maxStart is the time from the start until the first patch is seen.
const maxStart = 10 * time.Second

// check returns what the operator did wrong in a phase. A time is worth nothing if nodes are not as they should be, or
// if more was written than is needed.
func (b *bench) check(phase int, m *measurement) error {
	var all []error
	complain := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	held, most := b.Nodes, b.Nodes // nodes that each rule holds, and how often taints may change
	switch phase {
	case applied: // rules come one by one: a node may meet each on its own
		most *= b.Rules
	case turnedTrue:
		held = 0
	case beating:
		most = 0
	case restarted:
		held, most = held-1, 1
	}
	count := m.requests.count
	patches := count(kindPatch) + count(kindRefused)
	complain(m.wrongNodes > 0, "%d nodes do not have the right taints", m.wrongNodes)
	complain(m.changes > most, "taints changed %d times, at most %d would do", m.changes, most)
	complain(patches < min(b.Nodes, most) || patches > most, "%d patches of %d nodes", patches, b.Nodes)
	// Beside those about nodes there is at most one event about a rule for each write of its status.
	complain(count(kindEvent) > count(kindPatch)+count(kindStatus), "%d events for %d patches", count(kindEvent), patches)
	complain(phase == beating && m.requests.all() > 0, "requests for heartbeats: %s", m.summary())
	complain(m.idleWrites > 0, "%d writes after a restart with nothing to do", m.idleWrites)
	complain(phase == restarted && m.wall > maxStart, "the first patch %s after the start", m.wall)
	want := v1alpha1.NodeCounts{Matched: int32(b.Nodes), Ready: int32(b.Nodes - held), Held: int32(held)}
	for rule, got := range m.rules {
		complain(got != want, "the status of rule %s has %+v, not %+v", rule, got, want)
	}
	return errors.Join(all...)
}
