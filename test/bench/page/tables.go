// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/test/bench/measure"
)

const operator = "operator: "

// tables are what stands in the page between "<!-- begin NAME -->" and "<!-- end NAME -->".
var tables = map[string]func([]*measure.Run) string{
	"sizes":      sizes,
	"outage":     outage,
	"conditions": func(runs []*measure.Run) string { return results(runs, "conditions") },
	"pods":       func(runs []*measure.Run) string { return results(runs, "pods") },
	"admission":  admission,
	"agent":      agent,
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

// none takes the place of a table without rows.
const none = "No run of this version on a quiet machine is committed yet.\n"

// sizes is the table of the runs without a control plane.
func sizes(runs []*measure.Run) string {
	b := &strings.Builder{}
	b.WriteString("| Nodes x rules | Memory at most | of the standby | One node changes: p50, p99 | " +
		"All become ready: wall time, patches a second | CPU and requests for that | Restart: first patch | " +
		"CPU with heartbeats | Commit |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, run := range runs {
		if run.Evidence != "" {
			continue
		}
		one, all := line(run, operator+"heartbeats, and 10 changes a second"), line(run, operator+"all evidence turns good")
		requests := all.Patches + all.Refused + all.Events + all.StatusWrites + all.Other
		fmt.Fprintf(b, "| %d x %d | %s | %.0f MiB | %.0f ms, %.0f ms | %.1f s, %.0f | %.1f s, %.0f | %.1f s | %.0fm | %s |\n",
			run.Nodes, run.Rules, memory(run), line(run, "standby: all nodes listed again").PeakMiB, one.P50*1000, one.P99*1000,
			all.Wall, all.Patches/max(all.Wall, 1e-3), all.CPU, requests,
			line(run, operator+"restart, then one change").P99, line(run, operator+"heartbeats only").CPU*1000/20, run.Commit)
	}
	return b.String()
}

// memory is the operator's most memory, and the target, if the size has one.
func memory(run *measure.Run) string {
	used, target := run.Greatest("operator"), measure.MemoryTarget(run.Nodes, run.Rules)
	switch {
	case target == 0:
		return fmt.Sprintf("%.0f MiB", used)
	case used > float64(target):
		return fmt.Sprintf("**%.0f MiB of %d, missed**", used, target)
	}
	return fmt.Sprintf("%.0f MiB of %d, reached", used, target)
}

// outage is the table of the runs of an outage of all nodes.
func outage(runs []*measure.Run) string {
	b := &strings.Builder{}
	for _, run := range runs {
		if run.Evidence != measure.Outage {
			continue
		}
		each := func(l *measure.Line) string {
			return fmt.Sprintf("%.1f s, %.1f ms", l.CPU, l.CPU*1000/max(l.Patches, 1))
		}
		fmt.Fprintf(b, "| %d x %d | %s | %.1f s | %s | %.1f s | %s |\n", run.Nodes, run.Rules,
			each(line(run, operator+"all evidence turns bad")), line(run, operator+"the same again: good").CPU,
			each(line(run, operator+"outage under maxUnavailable")), line(run, operator+"its end").CPU, run.Commit)
	}
	if b.Len() == 0 {
		return none
	}
	return "| Nodes x rules | Without a limit: CPU, for each tainted node | its end | " +
		"With 30 %: CPU, for each tainted node | its end | Commit |\n|---|---|---|---|---|---|\n" + b.String()
}

// results are the tables of the runs on a control plane.
func results(runs []*measure.Run, evidence string) string {
	var all []string
	for _, run := range runs {
		if run.Evidence == evidence {
			all = append(all, run.Table())
		}
	}
	return cmp.Or(strings.Join(all, "\n"), none)
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
		b.WriteString("\n" + targets(run))
	}
	return cmp.Or(b.String(), none)
}

// agent is the table of the node agent.
func agent(runs []*measure.Run) string {
	for _, run := range runs {
		if run.Evidence == measure.Agent {
			return fmt.Sprintf("%d rounds, %s, %.1f s of CPU stolen, commit %s. The numbers are the medians of the rounds.\n\n"+
				"%s\n%s", run.Rounds, run.Machine, run.Stolen, run.Commit, run.RowsTable("", "Agent", "Constant", "Ratio"),
				targets(run))
		}
	}
	return none
}

// targets is the table of the targets of a run.
func targets(run *measure.Run) string {
	b := &strings.Builder{}
	b.WriteString("| Target | Measured |\n|---|---|\n")
	for _, t := range run.Targets {
		fmt.Fprintf(b, "| %s | %s, %s |\n", t.Title, t.Detail, t.Word())
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
