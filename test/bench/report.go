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
	"github.com/nodegate/nodegate/internal/operator"
	"github.com/nodegate/nodegate/test/bench/measure"
)

// results are the measurements of all contestants: by name, round and phase. The floors do not have the last phase.
type results map[string][][]*measurement

// complaints returns what the contestants did wrong.
func (r results) complaints() (all []string) {
	for _, name := range contestants {
		for round, phases := range r[name] {
			for phase, m := range phases {
				if m.wrong != nil {
					all = append(all, fmt.Sprintf("%s: %s, round %d: %s", name, phaseTitles[phase], round+1, m.wrong))
				}
			}
		}
	}
	return all
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

// each are the numbers of a contestant in a phase that are compared.
func (r results) each(name string, phase int) measure.Series {
	seconds := func(get func(*measurement) time.Duration) []float64 {
		return r.series(name, phase, func(m *measurement) float64 { return get(m).Seconds() })
	}
	return measure.Series{
		Wall:            seconds(func(m *measurement) time.Duration { return m.wall }),
		P99:             seconds(func(m *measurement) time.Duration { return m.p99 }),
		CPU:             seconds(func(m *measurement) time.Duration { return m.usage.Contestant }),
		ControlPlaneCPU: seconds(func(m *measurement) time.Duration { return m.usage.ControlPlane }),
		OthersCPU:       seconds(func(m *measurement) time.Duration { return m.usage.Others }),
	}
}

func (r results) lines() []measure.Line {
	var out []measure.Line
	for _, name := range contestants {
		for phase := range r[name][0] {
			get := func(f func(*measurement) float64) float64 { return measure.Median(r.series(name, phase, f)) }
			count := func(kind string) float64 {
				return get(func(m *measurement) float64 { return float64(m.requests.count(kind)) })
			}
			each := r.each(name, phase)
			line := measure.Line{
				Phase: name + ": " + phaseTitles[phase], Each: each,
				Wall: measure.Median(each.Wall), P99: measure.Median(each.P99), CPU: measure.Median(each.CPU),
				ControlPlaneCPU: measure.Median(each.ControlPlaneCPU), OthersCPU: measure.Median(each.OthersCPU),
				P50:     get(func(m *measurement) float64 { return m.p50.Seconds() }),
				PeakMiB: get(func(m *measurement) float64 { return float64(m.peak) / (1 << 20) }),
				Patches: count(kindPatch), Refused: count(kindRefused), Events: count(kindEvent),
				StatusWrites: count(kindStatus), Other: count(kindOther),
			}
			if phase < beating {
				line.Until = map[string]float64{}
				for _, kind := range []string{kindPatch, kindEvent, kindStatus, kindOther} {
					line.Until[kind] = get(func(m *measurement) float64 { return float64(m.requests.until(kind, m.last)) })
				}
			}
			if name == operatorName {
				line.Equal, line.Lean = each.Over(r.each(equalName, phase)), each.Over(r.each(leanName, phase))
			}
			out = append(out, line)
		}
	}
	return out
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

// check returns what a contestant did wrong in a phase. A time is worth nothing if nodes are not as they should be, or
// if more was written than is needed. A ratio is worth nothing if a floor did not do its work.
func (b *bench) check(name string, phase int, m *measurement) error {
	var all []error
	complain := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	held, most := b.Nodes, b.Nodes // nodes that each rule holds, and how often taints may change
	switch phase {
	case applied: // rules come one by one: a node may meet each on its own
		if name == operatorName {
			most *= b.Rules
		}
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
	// Beside those about nodes there is at most one event about a rule for each write of its status. The equal floor sends
	// one for each patch, unless the queue cannot hold them.
	events, equal := count(kindEvent), name == equalName && b.Nodes <= operator.QueuedEvents
	complain(events > count(kindPatch)+count(kindStatus) || name == leanName && events > 0 || equal && events < patches,
		"%d events for %d patches", events, patches)
	complain(phase == beating && m.requests.all() > 0, "requests for heartbeats: %s", m.summary())
	complain(m.idleWrites > 0, "%d writes after a restart with nothing to do", m.idleWrites)
	complain(phase == restarted && m.wall > maxStart, "the first patch %s after the start", m.wall)
	want := v1alpha1.NodeCounts{Matched: int32(b.Nodes), Ready: int32(b.Nodes - held), Held: int32(held)}
	for rule, got := range m.rules {
		complain(got != want, "the status of rule %s has %+v, not %+v", rule, got, want)
	}
	return errors.Join(all...)
}
