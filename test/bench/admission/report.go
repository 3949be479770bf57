// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/nodegate/nodegate/test/bench/measure"
)

// result returns what is measured, in the order of the setups.
func (o *options) result(all results) *measure.Run {
	run := &measure.Run{Machine: measure.Machine(), Rounds: o.rounds, Evidence: measure.Admission, Targets: targets(all)}
	for _, part := range o.parts() {
		for _, k := range part.kinds {
			floor := all[part.setups[0].String()][k.name]
			for _, s := range part.setups {
				is := all[s.String()][k.name]
				run.Requests = append(run.Requests, measure.Request{Kind: k.name, Setup: s.String(), CPU: measure.Median(is.cpu),
					P50: milliseconds(measure.Percentile(is.took, 50)), P99: milliseconds(measure.Percentile(is.took, 99)),
					Ratio: measure.RatioOf(is.cpu, floor.cpu)})
			}
		}
	}
	return run
}

// report prints a table for each kind of request, and which targets are reached.
func (o *options) report(w io.Writer, run *measure.Run) error {
	fmt.Fprintf(w, "\nmedians of %d rounds, each of %d requests by %d clients; %s, %.1f s of CPU stolen\n",
		o.rounds, o.requests, o.clients, run.Machine, run.Stolen)
	kind := ""
	for _, r := range run.Requests {
		if r.Kind != kind {
			kind = r.Kind
			fmt.Fprintf(w, "\n| %s | CPU of the API server, ms | Ratio | p50, ms | p99, ms |\n|---|---|---|---|---|\n", kind)
		}
		fmt.Fprintf(w, "| %s | %.1f | %s | %.1f | %.1f |\n", r.Setup, r.CPU, r.Ratio, r.P50, r.P99)
	}
	fmt.Fprintln(w)
	return measure.Targets(w, run.Targets)
}

// targets compares setups. A target with a setup that was not measured is left out.
func targets(all results) []measure.Target {
	var out []measure.Target
	for _, t := range []struct {
		title, kind string
		is, floor   setup
		most        float64
	}{
		{"patch with 50 rules over none, policy", "patch of a node", setup{policy, 50}, setup{}, 1.2},
		{"creation with 50 rules over 1, policy", "creation of a node", setup{policy, 50}, setup{policy, 1}, 2.5},
		{"creation with 50 rules over 1, webhook", "creation of a node", setup{webhook, 50}, setup{webhook, 1}, 2},
		{"heartbeat with 50 rules over nothing, policy", "heartbeat", setup{policy, 50}, setup{}, 1.05},
		{"heartbeat with 50 rules over nothing, webhook", "heartbeat", setup{webhook, 50}, setup{}, 1.05},
	} {
		is, floor := all[t.is.String()][t.kind], all[t.floor.String()][t.kind]
		if is == nil || floor == nil {
			continue
		}
		ratio := measure.RatioOf(is.cpu, floor.cpu)
		reached, undecided := ratio.Compare(t.most)
		out = append(out, measure.Target{Title: fmt.Sprintf("%s, at most %g x", t.title, t.most), Detail: ratio.String(),
			Reached: reached, Undecided: undecided})
	}
	return out
}
