// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodegate/nodegate/internal/text"
)

const operator = "operator: "

// Tables are the tables of docs/performance.md, by the Evidence of the runs that they are of. A table is of one run at
// least.
var Tables = map[string]func([]*Run) (string, error){
	"": sizes, Outage: outage, ByConditions: results, ByPods: results, Admission: admission, Agent: agent,
}

// Table returns the tables of a run.
func (r *Run) Table() (string, error) { return Tables[r.Evidence]([]*Run{r}) }

// sizes is the table of the runs without a control plane.
func sizes(runs []*Run) (string, error) {
	b := &strings.Builder{}
	b.WriteString("| Nodes x rules | Memory at most | of the standby | One node changes: p50, p99 | " +
		"All become ready: wall time, patches a second | CPU and requests for that | Restart: first patch | " +
		"CPU with heartbeats | CPU stolen, of all others | Commit |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range runs {
		l, err := r.lines(operator+"heartbeats, and 10 changes a second", operator+"all evidence turns good",
			"standby: all nodes listed again", operator+"restart, then one change", operator+"heartbeats only")
		if err != nil {
			return "", err
		}
		one, all := l[0], l[1]
		requests := all.Patches + all.Refused + all.Events + all.StatusWrites + all.Other
		fmt.Fprintf(b, "| %d x %d | %s | %.0f MiB | %.0f ms, %.0f ms | %.1f s, %.0f | %.1f s, %.0f | %.1f s | %.0fm | "+
			"%s | %s |\n", r.Nodes, r.Rules, r.memory(), l[2].PeakMiB, one.P50*1000, one.P99*1000, all.Wall,
			all.Patches/max(all.Wall, 1e-3), all.CPU, requests, l[3].P99, l[4].CPU*1000/20, r.disturbed(), r.Commit)
	}
	return b.String(), nil
}

// memory is the operator's most memory, and the target, if the size has one.
func (r *Run) memory() string {
	used, target := r.greatest(operator), r.MemoryTarget()
	switch {
	case target == 0:
		return fmt.Sprintf("%.0f MiB", used)
	case used > float64(target):
		return fmt.Sprintf("**%.0f MiB of %d, missed**", used, target)
	}
	return fmt.Sprintf("%.0f MiB of %d, reached", used, target)
}

// greatest returns the most memory of a contestant in any phase, in MiB.
func (r *Run) greatest(contestant string) (peak float64) {
	for i := range r.Lines {
		if strings.HasPrefix(r.Lines[i].Phase, contestant) {
			peak = max(peak, r.Lines[i].PeakMiB)
		}
	}
	return peak
}

// outage is the table of the runs of an outage of all nodes.
func outage(runs []*Run) (string, error) {
	b := &strings.Builder{}
	b.WriteString("| Nodes x rules | Without a limit: CPU, for each tainted node | its end | " +
		"With 30 %: CPU, for each tainted node | its end | CPU stolen, of all others | Commit |\n" +
		"|---|---|---|---|---|---|---|\n")
	each := func(l *Line) string { return fmt.Sprintf("%.1f s, %.1f ms", l.CPU, l.CPU*1000/max(l.Patches, 1)) }
	for _, r := range runs {
		l, err := r.lines(operator+"all evidence turns bad", operator+"the same again: good",
			operator+"outage under maxUnavailable", operator+"its end")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(b, "| %d x %d | %s | %.1f s | %s | %.1f s | %s | %s |\n", r.Nodes, r.Rules,
			each(l[0]), l[1].CPU, each(l[2]), l[3].CPU, r.disturbed(), r.Commit)
	}
	return b.String(), nil
}

// heading begins the tables of a run that has several rounds.
func (r *Run) heading() string {
	rounds := text.Plural(r.Rounds, "round", "rounds")
	if r.Planned > r.Rounds {
		rounds += fmt.Sprintf(" of %d", r.Planned)
	}
	return fmt.Sprintf("%s, %s, %.1f s of CPU stolen", rounds, r.Machine, r.Stolen)
}

// others returns the most CPU time of all others in a phase.
func (r *Run) others() (most float64) {
	for i := range r.Lines {
		most = slices.Max(append(slices.Clone(r.Lines[i].Each.OthersCPU), r.Lines[i].OthersCPU, most))
	}
	return most
}

// disturbed is the CPU time that was not the run's. Older runs did not measure that of other processes.
func (r *Run) disturbed() string {
	if r.others() == 0 {
		return fmt.Sprintf("%.1f s, -", r.Stolen)
	}
	return fmt.Sprintf("%.1f s, %.1f s", r.Stolen, r.others())
}

// results are the tables of the runs on a control plane: the operator's phases, with its ratios to the floors.
func results(runs []*Run) (string, error) {
	var all []string
	for _, r := range runs {
		most, b := mostOf(r.Rules), &strings.Builder{}
		fmt.Fprintf(b, "%d nodes, %s, %s, at most %.1f s of CPU by all others in a phase, commit %s. The operator used %s, "+
			"and the equal floor %.0f MiB. Targets: wall time %.2f, p99 %.2f, CPU of heartbeats %.2f.", r.Nodes,
			text.Plural(r.Rules, "rule", "rules"), r.heading(), r.others(), r.Commit, r.memory(), r.greatest("equal-floor"),
			most.wall, most.p99, most.heartbeats)
		if r.GuardedBy != "" {
			fmt.Fprintf(b, " Ratios to the lean floor: at most a tenth above those of %s.", r.GuardedBy)
		}
		var equal, lean [][]string
		for i := range r.Lines {
			if phase, ok := strings.CutPrefix(r.Lines[i].Phase, operator); ok {
				equal = append(equal, append([]string{phase}, r.Lines[i].besideEqual(phase, most)...))
				lean = append(lean, append([]string{phase}, r.Lines[i].besideLean()...))
			}
		}
		b.WriteString("\n\n" + table([]string{"Phase", "Operator: wall, p99", "Wall x equal", "p99 x equal", "Operator's CPU",
			"x equal", "Control plane's CPU", "x equal"}, equal))
		b.WriteString("\n" + table([]string{"Phase", "Wall x lean", "p99 x lean", "CPU x lean", "Control plane's CPU x lean",
			"Patches", "Events", "Statuses", "Others"}, lean))
		all = append(all, b.String())
	}
	return strings.Join(all, "\n"), nil
}

// besideEqual are the cells of a phase that compare the operator with the equal floor. No floor restarts.
func (l *Line) besideEqual(phase string, most most) []string {
	took, wall, p99, used, cpu, server := fmt.Sprintf("%.1f s", l.Wall), "-", "-", "-", l.Equal.CPU.String(), "-"
	if l.Equal.CPU.Rounds > 0 {
		used, server = fmt.Sprintf("%.1f s", l.CPU), fmt.Sprintf("%.1f s", l.ControlPlaneCPU)
	}
	switch {
	case strings.HasPrefix(phase, "heartbeats"): // the bench sends them as fast as the API server answers
		cpu = l.Equal.CPU.judged(most.heartbeats)
	case l.Equal.Wall.Rounds > 0:
		took += fmt.Sprintf(", %.0f ms", l.P99*1000)
		wall, p99 = l.Equal.Wall.judged(most.wall), l.Equal.P99.judged(most.p99)
	}
	return []string{took, wall, p99, used, cpu, server, l.Equal.ControlPlane.String()}
}

// besideLean are the cells of a phase that compare the operator with the lean floor, and its requests.
func (l *Line) besideLean() []string {
	wall := "-"
	if l.Lean.P99.Rounds > 0 { // otherwise the wall time is that of the bench's own writes
		wall = l.Lean.Wall.guarded(l.LeanMost.Wall)
	}
	return []string{wall, l.Lean.P99.guarded(l.LeanMost.P99), l.Lean.CPU.String(), l.Lean.ControlPlane.String(),
		l.until("node patches", l.Patches), l.until("events", l.Events), l.until("status writes", l.StatusWrites),
		l.until("others", l.Other)}
}

// until returns how many requests of a kind came until the last taint, of all.
func (l *Line) until(kind string, all float64) string {
	if l.Until == nil {
		return fmt.Sprintf("%.0f", all)
	}
	return fmt.Sprintf("%.0f of %.0f", l.Until[kind], all)
}

// admission are the tables of what admission costs the API server: a column for each kind of request, one table for
// those with the same setups.
func admission(runs []*Run) (string, error) {
	b := &strings.Builder{}
	for _, run := range runs {
		fmt.Fprintf(b, "%s, commit %s. Each cell has the CPU time of the API server in ms, how many times as much as with "+
			"nothing this is, both the medians of the rounds; and the latency in ms, at p50 and p99.\n", run.heading(),
			run.Commit)
		var heads []string
		var rows [][]string
		for i := 0; i < len(run.Requests); {
			kind, column := run.Requests[i].Kind, [][]string(nil)
			for ; i < len(run.Requests) && run.Requests[i].Kind == kind; i++ {
				r := &run.Requests[i]
				column = append(column, []string{r.Setup, fmt.Sprintf("%.1f, %s; %.0f, %.0f", r.CPU, r.Ratio, r.P50, r.P99)})
			}
			if slices.EqualFunc(rows, column, func(row, cell []string) bool { return row[0] == cell[0] }) {
				for n := range rows {
					rows[n] = append(rows[n], column[n][1])
				}
				heads = append(heads, kind)
				continue
			}
			if rows != nil {
				b.WriteString("\n" + table(heads, rows))
			}
			heads, rows = []string{"", kind}, column
		}
		b.WriteString("\n" + table(heads, rows))
		b.WriteString("\n" + run.targets())
	}
	return b.String(), nil
}

// agent is the table of the node agent.
func agent(runs []*Run) (string, error) {
	b := &strings.Builder{}
	for _, r := range runs {
		fmt.Fprintf(b, "%s, commit %s. The numbers are the medians of the rounds.\n\n%s\n%s", r.heading(), r.Commit,
			table([]string{"", "Agent", "Constant", "Ratio"}, r.Rows), r.targets())
	}
	return b.String(), nil
}

// targets is the table of the targets of a run.
func (r *Run) targets() string {
	var rows [][]string
	for i := range r.Targets {
		t := &r.Targets[i]
		rows = append(rows, []string{t.Title, t.Detail + ", " + t.word()})
	}
	return table([]string{"Target", "Measured"}, rows)
}

// table returns a table of Markdown.
func table(heads []string, rows [][]string) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}
