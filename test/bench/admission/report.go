// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/nodegate/nodegate/test/bench/measure"
)

// report prints a table for each kind of request, and which targets are reached.
func report(w io.Writer, o *options, all results) error {
	fmt.Fprintf(w, "\n%d requests of each kind by %d clients, medians of %d rounds; %s\n", o.requests, o.clients, o.rounds,
		measure.Machine())
	for _, part := range []struct {
		setups []setup
		kinds  []kind
	}{{nodeSetups(o.rules), nodeKinds}, {podSetups, podKinds}} {
		for _, k := range part.kinds {
			fmt.Fprintf(w, "\n| %s | CPU of the API server, ms | Ratio | p50, ms | p99, ms |\n|---|---|---|---|---|\n", k.name)
			floor := all[part.setups[0].String()][k.name]
			for _, s := range part.setups {
				is := all[s.String()][k.name]
				fmt.Fprintf(w, "| %s | %.1f | %s | %.1f | %.1f |\n", s, measure.Median(is.cpu),
					measure.RatioOf(is.cpu, floor.cpu), measure.Median(is.median), measure.Median(is.p99))
			}
		}
	}
	fmt.Fprintln(w)
	return measure.Targets(w, targets(all))
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
		out = append(out, measure.Target{Title: fmt.Sprintf("%s, at most %g x", t.title, t.most), Detail: ratio.String(),
			Reached: ratio.Median > 0 && ratio.Median <= t.most, Undecided: ratio.Low <= t.most && ratio.Median > t.most})
	}
	return out
}
