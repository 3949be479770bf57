// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
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

func seconds(d func(*measurement) time.Duration) func(*measurement) float64 {
	return func(m *measurement) float64 { return d(m).Seconds() }
}

func count(n func(*measurement) int) func(*measurement) float64 {
	return func(m *measurement) float64 { return float64(n(m)) }
}

var changing = []int{applied, turnedTrue, turnedFalse}

var rows = []row{
	{"wall time", seconds(func(m *measurement) time.Duration { return m.wall }), formatSeconds, true, changing},
	{"conditions written after", seconds(func(m *measurement) time.Duration { return m.written }), formatSeconds, false, []int{turnedTrue, turnedFalse, beating}},
	{"p50", seconds(func(m *measurement) time.Duration { return m.p50 }), formatMillis, true, changing},
	{"p90", seconds(func(m *measurement) time.Duration { return m.p90 }), formatMillis, true, changing},
	{"p99", seconds(func(m *measurement) time.Duration { return m.p99 }), formatMillis, true, changing},
	{"max", seconds(func(m *measurement) time.Duration { return m.max }), formatMillis, true, changing},
	{"CPU", seconds(func(m *measurement) time.Duration { return m.usage.contestant }), formatSeconds, true, nil},
	{"CPU of the control plane", seconds(func(m *measurement) time.Duration { return m.usage.controlPlane }), formatSeconds, true, nil},
	{"CPU of the bench", seconds(func(m *measurement) time.Duration { return m.usage.bench }), formatSeconds, false, nil},
	{"CPU of all others", seconds(func(m *measurement) time.Duration { return m.usage.others }), formatSeconds, false, nil},
	{"peak memory", func(m *measurement) float64 { return float64(m.peak) }, formatBytes, true, nil},
	{"node patches", count(func(m *measurement) int { return m.requests.nodePatches }), formatCount, false, nil},
	{"node patches refused", count(func(m *measurement) int { return m.requests.refused }), formatCount, false, nil},
	{"events", count(func(m *measurement) int { return m.requests.events }), formatCount, false, nil},
	{"status writes", count(func(m *measurement) int { return m.requests.statusWrites }), formatCount, false, nil},
	{"other writes of rules", count(func(m *measurement) int { return m.requests.ruleWrites }), formatCount, false, nil},
	{"looks at nodes, as it says", count(func(m *measurement) int { return m.reconciles }), formatCount, false, nil},
	{"watches that ended", count(func(m *measurement) int { return m.requests.watches }), formatCount, false, nil},
	{"all requests", count(func(m *measurement) int { return m.requests.all }), formatCount, false, nil},
}

// table is what was measured, phase by phase.
func (r *results) table() string {
	names := []string{operatorName, floorName, floorEventsName}
	b := &strings.Builder{}
	for phase := range phaseCount {
		title := phaseTitles[phase]
		if phase == beating {
			title = fmt.Sprintf("%s (%d of each node)", title, r.heartbeats)
		}
		lines := [][]string{{fmt.Sprintf("%d. %s", phase+1, title), operatorName, floorName, floorEventsName, "operator/floor", "floor+events/floor"}}
		for _, row := range rows {
			if row.phases != nil && !slices.Contains(row.phases, phase) {
				continue
			}
			line := []string{"   " + row.title}
			series := map[string][]float64{}
			for _, name := range names {
				series[name] = r.series(name, phase, row.get)
				line = append(line, row.format(median(series[name])))
			}
			if row.ratio {
				line = append(line, formatRatio(series[operatorName], series[floorName]), formatRatio(series[floorEventsName], series[floorName]))
			}
			lines = append(lines, line)
		}
		b.WriteString(align(lines))
		b.WriteString("\n")
	}
	return b.String()
}

// align makes columns: the first one to the left, the others to the right.
func align(lines [][]string) string {
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	b := &strings.Builder{}
	for _, line := range lines {
		row := &strings.Builder{}
		for i, cell := range line {
			if i == 0 {
				fmt.Fprintf(row, "%-*s", widths[i], cell)
			} else {
				fmt.Fprintf(row, "  %*s", widths[i], cell)
			}
		}
		fmt.Fprintln(b, strings.TrimRight(row.String(), " "))
	}
	return b.String()
}

func formatSeconds(v float64) string { return formatNumber(v, "%.2f s") }
func formatMillis(v float64) string  { return formatNumber(v*1000, "%.0f ms") }
func formatBytes(v float64) string   { return formatNumber(v/(1<<20), "%.0f MiB") }
func formatCount(v float64) string   { return formatNumber(v, "%.0f") }

func formatNumber(v float64, format string) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// formatRatio is the ratio of the medians and, in parentheses, the least and the greatest of the rounds' own.
func formatRatio(a, b []float64) string {
	r := ratio(median(a), median(b))
	if math.IsNaN(r) {
		return "-"
	}
	each := ratios(a, b)
	if len(each) < 2 {
		return fmt.Sprintf("%.2f", r)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", r, slices.Min(each), slices.Max(each))
}

// summary is one line about a measurement, for the progress.
func (m *measurement) summary(phase int) string {
	s := fmt.Sprintf("%.2f s CPU, %d node patches, %d events, %d status writes", m.usage.contestant.Seconds(), m.requests.nodePatches, m.requests.events, m.requests.statusWrites)
	if phase != beating {
		s = fmt.Sprintf("%.2f s, p99 %.0f ms, %s", m.wall.Seconds(), m.p99.Seconds()*1000, s)
	}
	for _, more := range []map[string]int{m.requests.other, m.requests.failed} {
		for _, what := range sortedKeys(more) {
			s += fmt.Sprintf(", %d x %s", more[what], what)
		}
	}
	return s
}
