// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/test/bench/measure"
)

const operator = "operator: "

// tables are what stands in the page between "<!-- begin NAME -->" and "<!-- end NAME -->".
var tables = map[string]func([]*measure.Run) string{
	"sizes":      sizes,
	"conditions": func(runs []*measure.Run) string { return results(runs, "conditions") },
	"pods":       func(runs []*measure.Run) string { return results(runs, "pods") },
	"admission":  admission,
}

// fill replaces the tables of a page.
func fill(page string, runs []*measure.Run) (string, error) {
	for name, table := range tables {
		begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			return "", fmt.Errorf("no %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
		}
		page = before + begin + "\n" + table(runs) + "\n" + end + after
	}
	return page, nil
}

// sizes is the table of the runs without a control plane.
func sizes(runs []*measure.Run) string {
	b := &strings.Builder{}
	b.WriteString("| Nodes x rules | Memory at most | of the standby | One node becomes ready: p50, p99 | " +
		"All become ready: wall time, CPU | Requests for that | Restart: first patch | CPU with heartbeats | " +
		"Commit |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, run := range runs {
		if run.Evidence != "" {
			continue
		}
		one, all := line(run, operator+"heartbeats, and 10 changes a second"), line(run, operator+"all evidence turns good")
		requests := all.Patches + all.Refused + all.Events + all.StatusWrites + all.Other
		fmt.Fprintf(b, "| %d x %d | %.0f MiB | %.0f MiB | %.0f ms, %.0f ms | %.1f s, %.1f s | %.0f, %.0f a second | "+
			"%.1f s | %.0fm | %s |\n", run.Nodes, run.Rules, greatest(run, operator),
			line(run, "standby: all nodes listed again").PeakMiB,
			one.P50*1000, one.P99*1000, all.Wall, all.CPU, requests, requests/max(all.Wall, 1e-3),
			line(run, operator+"restart, then one change").Wall, line(run, operator+"heartbeats only").CPU*1000/20, run.Commit)
	}
	return b.String()
}

// results are the tables of the runs on a control plane.
func results(runs []*measure.Run, evidence string) string {
	var all []string
	for _, run := range runs {
		if run.Evidence != evidence {
			continue
		}
		most, b := measure.MostOf(run.Rules), &strings.Builder{}
		fmt.Fprintf(b, "%d nodes, %d %s, %d rounds, %s, %.1f s of CPU stolen, commit %s. The operator used %.0f MiB, and "+
			"the equal floor %.0f MiB. Targets: wall time %.2f, p99 %.2f, CPU of heartbeats %.2f.\n\n", run.Nodes, run.Rules,
			plural("rule", run.Rules), run.Rounds, run.Machine, run.Stolen, run.Commit, greatest(run, operator),
			greatest(run, "equal-floor: "), most.Wall, most.P99, most.Heartbeats)
		b.WriteString("| Phase | Operator: wall, p99 | CPU | Wall x equal | p99 x equal | CPU x equal | Wall x lean | " +
			"p99 x lean | Control plane's CPU x equal | Patches | Events | Statuses |\n" +
			"|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		for i := range run.Lines {
			l := &run.Lines[i]
			phase, ok := strings.CutPrefix(l.Phase, operator)
			if !ok {
				continue
			}
			wall, p99, cpu := "-", "-", l.Equal.CPU.String()
			switch {
			case strings.HasPrefix(phase, "heartbeats"):
				cpu = l.Equal.CPU.Judged(most.Heartbeats)
			case l.Equal.Wall.Rounds > 0:
				wall, p99 = l.Equal.Wall.Judged(most.Wall), l.Equal.P99.Judged(most.P99)
			}
			fmt.Fprintf(b, "| %s | %.1f s, %.0f ms | %.1f s | %s | %s | %s | %s | %s | %s | %.0f | %.0f | %.0f |\n",
				phase, l.Wall, l.P99*1000, l.CPU, wall, p99, cpu, l.Lean.Wall, l.Lean.P99, l.Equal.ControlPlane, l.Patches,
				l.Events, l.StatusWrites)
		}
		all = append(all, b.String())
	}
	return strings.Join(all, "\n")
}

// admission are the tables of what admission costs the API server: a column for each kind of request, one table for
// those with the same setups.
func admission(runs []*measure.Run) string {
	b := &strings.Builder{}
	for _, run := range runs {
		if run.Evidence != measure.Admission {
			continue
		}
		var kinds []string
		cells := map[string]map[string]string{} // by setup and kind
		setups := map[string][]string{}         // by kind
		for i := range run.Requests {
			r := &run.Requests[i]
			if setups[r.Kind] == nil {
				kinds = append(kinds, r.Kind)
			}
			setups[r.Kind] = append(setups[r.Kind], r.Setup)
			if cells[r.Setup] == nil {
				cells[r.Setup] = map[string]string{}
			}
			cells[r.Setup][r.Kind] = fmt.Sprintf("%.1f, %s; %.0f, %.0f", r.CPU, r.Ratio, r.P50, r.P99)
		}
		fmt.Fprintf(b, "%d rounds, %s, %.1f s of CPU stolen, commit %s. Each cell has the CPU time of the API server in ms, "+
			"how many times as much as with nothing this is, both the medians of the rounds; and the latency in ms, at p50 "+
			"and p99.\n", run.Rounds, run.Machine, run.Stolen, run.Commit)
		for len(kinds) > 0 {
			first := setups[kinds[0]]
			n := slices.IndexFunc(kinds, func(k string) bool { return !slices.Equal(setups[k], first) })
			if n < 0 {
				n = len(kinds)
			}
			fmt.Fprintf(b, "\n| | %s |\n|%s\n", strings.Join(kinds[:n], " | "), strings.Repeat("---|", n+1))
			for _, s := range first {
				fmt.Fprintf(b, "| %s |", s)
				for _, k := range kinds[:n] {
					fmt.Fprintf(b, " %s |", cells[s][k])
				}
				b.WriteString("\n")
			}
			kinds = kinds[n:]
		}
		b.WriteString("\n| Target | Measured |\n|---|---|\n")
		for _, t := range run.Targets {
			fmt.Fprintf(b, "| %s | %s, %s |\n", t.Title, t.Detail, t.Word())
		}
	}
	if b.Len() == 0 {
		return "No run of this version on a quiet machine is committed yet.\n"
	}
	return b.String()
}

// line returns the line of a phase, or an empty one.
func line(run *measure.Run, phase string) *measure.Line {
	if i := slices.IndexFunc(run.Lines, func(l measure.Line) bool { return l.Phase == phase }); i >= 0 {
		return &run.Lines[i]
	}
	return &measure.Line{}
}

// greatest is the most memory of a contestant in any phase, in MiB.
func greatest(run *measure.Run, contestant string) (peak float64) {
	for i := range run.Lines {
		if strings.HasPrefix(run.Lines[i].Phase, contestant) {
			peak = max(peak, run.Lines[i].PeakMiB)
		}
	}
	return peak
}
