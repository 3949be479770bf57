// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/nodegate/nodegate/test/bench/measure"
)

// results are the measurements of all contestants: by name and phase, round by round.
type results struct {
	*options
	measured map[string][phaseCount][]*measurement
}

func (r *results) add(name string, phases []*measurement) {
	if r.measured == nil {
		r.measured = map[string][phaseCount][]*measurement{}
	}
	all := r.measured[name]
	for i, m := range phases {
		all[i] = append(all[i], m)
	}
	r.measured[name] = all
}

// series is one number of a contestant in a phase, round by round.
func (r *results) series(name string, phase int, get func(*measurement) float64) []float64 {
	var out []float64
	for _, m := range r.measured[name][phase] {
		out = append(out, get(m))
	}
	return out
}

var changing = []int{applied, turnedTrue, turnedFalse}

func wall(m *measurement) float64         { return m.wall.Seconds() }
func p50(m *measurement) float64          { return m.p50.Seconds() }
func p99(m *measurement) float64          { return m.p99.Seconds() }
func cpu(m *measurement) float64          { return m.usage.Contestant.Seconds() }
func controlPlane(m *measurement) float64 { return m.usage.ControlPlane.Seconds() }
func peak(m *measurement) float64         { return float64(m.peak) / (1 << 20) }

// print prints the targets, and the table.
func (r *results) print(w io.Writer, run *measure.Run) error {
	err := measure.Targets(w, r.targets())
	fmt.Fprint(w, "\n"+run.Table())
	return err
}

func (r *results) lines() []measure.Line {
	var out []measure.Line
	for _, name := range contestants {
		for phase := range phaseCount {
			if len(r.measured[name][phase]) == 0 {
				continue
			}
			get := func(f func(*measurement) float64) float64 { return measure.Median(r.series(name, phase, f)) }
			count := func(n func(*requests) int) float64 {
				return get(func(m *measurement) float64 { return float64(n(&m.requests)) })
			}
			line := measure.Line{
				Phase: name + ": " + phaseTitles[phase],
				Wall:  get(wall), P50: get(p50), P99: get(p99), CPU: get(cpu), PeakMiB: get(peak),
				ControlPlaneCPU: get(controlPlane),
				OthersCPU:       get(func(m *measurement) float64 { return m.usage.Others.Seconds() }),
				Patches:         count(func(q *requests) int { return q.nodePatches }),
				Refused:         count(func(q *requests) int { return q.refused }),
				Events:          count(func(q *requests) int { return q.events }),
				StatusWrites:    count(func(q *requests) int { return q.statusWrites }),
				Other: count(func(q *requests) int {
					return q.all - q.nodePatches - q.refused - q.events - q.statusWrites
				}),
			}
			if slices.Contains(changing, phase) {
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
func (r *results) ratio(phase int, floor string, get func(*measurement) float64) measure.Ratio {
	return measure.RatioOf(r.series(operatorName, phase, get), r.series(floor, phase, get))
}

func (r *results) ratios(phase int, floor string) measure.Ratios {
	return measure.Ratios{Wall: r.ratio(phase, floor, wall), P99: r.ratio(phase, floor, p99),
		CPU: r.ratio(phase, floor, cpu), ControlPlane: r.ratio(phase, floor, controlPlane)}
}

// summary is one line about a measurement, for the progress.
func (m *measurement) summary(phase int) string {
	s := fmt.Sprintf("%.2f s CPU, %d node patches, %d events, %d status writes",
		m.usage.Contestant.Seconds(), m.requests.nodePatches, m.requests.events, m.requests.statusWrites)
	if phase != beating {
		s = fmt.Sprintf("%.2f s, p99 %.0f ms, %s", m.wall.Seconds(), m.p99.Seconds()*1000, s)
	}
	for _, more := range []map[string]int{m.requests.other, m.requests.failed} {
		for _, what := range slices.Sorted(maps.Keys(more)) {
			s += fmt.Sprintf(", %d x %s", more[what], what)
		}
	}
	return s
}
