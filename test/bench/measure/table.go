// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"strings"

	"github.com/nodegate/nodegate/internal/text"
)

// Greatest returns the most memory of a contestant in any phase, in MiB.
func (r *Run) Greatest(contestant string) (peak float64) {
	for i := range r.Lines {
		if strings.HasPrefix(r.Lines[i].Phase, contestant+": ") {
			peak = max(peak, r.Lines[i].PeakMiB)
		}
	}
	return peak
}

// Table returns the operator's phases of a run on a control plane, with its ratios to the floors.
func (r *Run) Table() string {
	most, others, b := MostOf(r.Rules), 0.0, &strings.Builder{}
	for i := range r.Lines {
		others = max(others, r.Lines[i].OthersCPU)
	}
	fmt.Fprintf(b, "%d nodes, %s, %s, %s, %.1f s of CPU stolen, at most %.1f s of CPU by all others in a phase, commit "+
		"%s. The operator used %.0f MiB, and the equal floor %.0f MiB. Targets: wall time %.2f, p99 %.2f, CPU of "+
		"heartbeats %.2f.\n\n", r.Nodes, text.Plural(r.Rules, "rule", "rules"), text.Plural(r.Rounds, "round", "rounds"),
		r.Machine, r.Stolen, others, r.Commit, r.Greatest("operator"), r.Greatest("equal-floor"), most.Wall, most.P99,
		most.Heartbeats)
	b.WriteString("| Phase | Operator: wall, p99 | CPU | Wall x equal | p99 x equal | CPU x equal | Wall x lean | " +
		"p99 x lean | Control plane's CPU x equal | Patches | Events | Statuses |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range r.Lines {
		l := &r.Lines[i]
		phase, ok := strings.CutPrefix(l.Phase, "operator: ")
		if !ok {
			continue
		}
		took, used := fmt.Sprintf("%.1f s", l.Wall), "-" // no floor restarts
		wall, p99, cpu, leanWall := "-", "-", l.Equal.CPU.String(), "-"
		if l.Equal.CPU.Rounds > 0 {
			used = fmt.Sprintf("%.1f s", l.CPU)
		}
		switch {
		case strings.HasPrefix(phase, "heartbeats"): // the bench sends them as fast as the API server answers
			cpu = l.Equal.CPU.Judged(most.Heartbeats)
		case l.Equal.Wall.Rounds > 0:
			took += fmt.Sprintf(", %.0f ms", l.P99*1000)
			wall, p99, leanWall = l.Equal.Wall.Judged(most.Wall), l.Equal.P99.Judged(most.P99), l.Lean.Wall.String()
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", phase, took, used, wall, p99, cpu,
			leanWall, l.Lean.P99, l.Equal.ControlPlane, l.until("node patches", l.Patches), l.until("events", l.Events),
			l.until("status writes", l.StatusWrites))
	}
	return b.String()
}

// until returns how many requests of a kind came until the last taint, of all.
func (l *Line) until(kind string, all float64) string {
	if l.Until == nil {
		return fmt.Sprintf("%.0f", all)
	}
	return fmt.Sprintf("%.0f of %.0f", l.Until[kind], all)
}
