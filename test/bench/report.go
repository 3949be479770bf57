// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

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

// row is a line of the table.
type row struct {
	title  string
	get    func(*measurement) float64
	format func(float64) string
	ratio  bool
	phases []int // all, if none
}

func duration(d func(*measurement) time.Duration) func(*measurement) float64 {
	return func(m *measurement) float64 { return d(m).Seconds() }
}

func count(n func(*measurement) int) func(*measurement) float64 {
	return func(m *measurement) float64 { return float64(n(m)) }
}

var changing = []int{applied, turnedTrue, turnedFalse}

var (
	seconds  = measure.Number("%.2f s", 1)
	millis   = measure.Number("%.0f ms", 1e-3)
	mebibyte = measure.Number("%.0f MiB", 1<<20)
	number   = measure.Number("%.0f", 1)
)

var rows = []row{
	{"wall time", duration(func(m *measurement) time.Duration { return m.wall }), seconds, true, changing},
	{"conditions written after", duration(func(m *measurement) time.Duration { return m.written }), seconds, false,
		[]int{turnedTrue, turnedFalse, beating}},
	{"p50", duration(func(m *measurement) time.Duration { return m.p50 }), millis, true, changing},
	{"p90", duration(func(m *measurement) time.Duration { return m.p90 }), millis, true, changing},
	{"p99", duration(func(m *measurement) time.Duration { return m.p99 }), millis, true, changing},
	{"max", duration(func(m *measurement) time.Duration { return m.max }), millis, true, changing},
	{"CPU", duration(func(m *measurement) time.Duration { return m.usage.Contestant }), seconds, true, nil},
	{"CPU of the control plane", duration(func(m *measurement) time.Duration { return m.usage.ControlPlane }), seconds,
		true, nil},
	{"CPU of the bench", duration(func(m *measurement) time.Duration { return m.usage.Bench }), seconds, false, nil},
	{"CPU of all others", duration(func(m *measurement) time.Duration { return m.usage.Others }), seconds, false, nil},
	{"peak memory", func(m *measurement) float64 { return float64(m.peak) }, mebibyte, true, nil},
	{"node patches", count(func(m *measurement) int { return m.requests.nodePatches }), number, false, nil},
	{"node patches refused", count(func(m *measurement) int { return m.requests.refused }), number, false, nil},
	{"events", count(func(m *measurement) int { return m.requests.events }), number, false, nil},
	{"status writes", count(func(m *measurement) int { return m.requests.statusWrites }), number, false, nil},
	{"other writes of rules", count(func(m *measurement) int { return m.requests.ruleWrites }), number, false, nil},
	{"reconciles, by its metrics", count(func(m *measurement) int { return m.reconciles }), number, false, nil},
	{"watches that ended", count(func(m *measurement) int { return m.requests.watches }), number, false, nil},
	{"all requests", count(func(m *measurement) int { return m.requests.all }), number, false, nil},
}

// print prints the measurements, phase by phase, the targets, and the table of docs/performance.md.
func (r *results) print(w io.Writer) error {
	names := []string{operatorName, floorName}
	for phase := range phaseCount {
		title := phaseTitles[phase]
		if phase == beating {
			title = fmt.Sprintf("%s (%d of each node)", title, r.heartbeats)
		}
		var table []measure.Row
		for _, row := range rows {
			if row.phases != nil && !slices.Contains(row.phases, phase) {
				continue
			}
			line := measure.Row{Title: row.title, Format: row.format, Ratios: row.ratio}
			for _, name := range names {
				line.Series = append(line.Series, r.series(name, phase, row.get))
			}
			table = append(table, line)
		}
		measure.Table(w, fmt.Sprintf("%d. %s", phase+1, title), names, []int{0}, table)
	}
	err := measure.Targets(w, r.targets())
	fmt.Fprint(w, "\n"+r.page())
	return err
}

// pageLine is a line of the table of the page, and the JSON that charts are made from.
type pageLine struct {
	Nodes, Rules int
	Phase        string
	// Wall, P50 and P99 are in seconds; the ratios are those to the floor, 0 where there is none.
	Wall, WallRatio, P50, P99, P99Ratio float64
	CPU, CPURatio                       float64 // in seconds
	PeakMiB                             float64
	Patches, Events, StatusWrites       float64
}

func (r *results) lines() []pageLine {
	var out []pageLine
	for phase := range phaseCount {
		get := func(f func(*measurement) float64) float64 { return measure.Median(r.series(operatorName, phase, f)) }
		ratio := func(f func(*measurement) float64) float64 {
			if v := measure.Ratio(r.series(operatorName, phase, f), r.series(floorName, phase, f)); !math.IsNaN(v) {
				return v
			}
			return 0
		}
		wall := duration(func(m *measurement) time.Duration { return m.wall })
		p50 := duration(func(m *measurement) time.Duration { return m.p50 })
		p99 := duration(func(m *measurement) time.Duration { return m.p99 })
		cpu := duration(func(m *measurement) time.Duration { return m.usage.Contestant })
		out = append(out, pageLine{
			Nodes: r.nodes, Rules: r.rules, Phase: phaseTitles[phase],
			Wall: get(wall), WallRatio: ratio(wall), P50: get(p50), P99: get(p99), P99Ratio: ratio(p99),
			CPU: get(cpu), CPURatio: ratio(cpu),
			PeakMiB:      get(func(m *measurement) float64 { return float64(m.peak) }) / (1 << 20),
			Patches:      get(count(func(m *measurement) int { return m.requests.nodePatches })),
			Events:       get(count(func(m *measurement) int { return m.requests.events })),
			StatusWrites: get(count(func(m *measurement) int { return m.requests.statusWrites })),
		})
	}
	return out
}

// page returns the table of docs/performance.md.
func (r *results) page() string { return table(r.lines()) }

func table(lines []pageLine) string {
	b := &strings.Builder{}
	fmt.Fprintln(b, "| Nodes x rules | Phase | Wall time | x floor | p50 | p99 | x floor | CPU | x floor | Memory | "+
		"Patches | Events | Status writes |")
	fmt.Fprintln(b, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, l := range lines {
		fmt.Fprintf(b, "| %d x %d | %s | %.1f s | %s | %.0f ms | %.0f ms | %s | %.1f s | %s | "+
			"%.0f MiB | %.0f | %.0f | %.0f |\n",
			l.Nodes, l.Rules, l.Phase, l.Wall, times(l.WallRatio), l.P50*1000, l.P99*1000, times(l.P99Ratio), l.CPU,
			times(l.CPURatio), l.PeakMiB, l.Patches, l.Events, l.StatusWrites)
	}
	return b.String()
}

// times formats a ratio, of which a phase may have none.
func times(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", ratio)
}

// writeJSON writes the lines to the file of --json, if it is given.
func (o *options) writeJSON(lines []pageLine) error {
	if o.json == "" {
		return nil
	}
	raw, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(raw, '\n'), 0o600)
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
