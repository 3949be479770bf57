// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nodegate/nodegate/test/bench/measure"
)

// Targets of the agent.
const (
	maxRatio  = 2.0
	maxP99    = time.Millisecond
	maxMemory = 22 << 20
)

// series are the measurements of one contestant, round by round.
type series struct {
	median, p99, worst []float64 // in microseconds
	throughput         []float64 // in requests per second
	cpu                []float64 // in microseconds per request
}

func (s *series) measure(ctx context.Context, c *contestant, o *options) error {
	before, err := measure.CPU(c.pid)
	if err != nil {
		return err
	}
	took, err := atRate(ctx, c.address, o)
	if err != nil {
		return err
	}
	after, err := measure.CPU(c.pid)
	if err != nil {
		return err
	}
	s.median = append(s.median, microseconds(measure.Percentile(took, 50)))
	s.p99 = append(s.p99, microseconds(measure.Percentile(took, 99)))
	s.worst = append(s.worst, microseconds(measure.Percentile(took, 100)))
	s.cpu = append(s.cpu, microseconds(after-before)/float64(len(took)))
	throughput, err := asFastAsItCan(ctx, c.address, o)
	s.throughput = append(s.throughput, throughput)
	return err
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// result returns what --json writes.
func (o *options) result(agent, constant *series, peak uint64) *measure.Run {
	run := &measure.Run{Machine: measure.Machine(), Rounds: o.rounds, Evidence: measure.Agent}
	latency := measure.RatioOf(agent.median, constant.median)
	for _, row := range []struct {
		title           string
		agent, constant []float64
	}{
		{"latency, median, µs", agent.median, constant.median},
		{"latency, p99, µs", agent.p99, constant.p99},
		{"latency, worst, µs", agent.worst, constant.worst},
		{"CPU a request, µs", agent.cpu, constant.cpu},
		{"requests a second at most", agent.throughput, constant.throughput},
	} {
		run.Rows = append(run.Rows, []string{row.title, fmt.Sprintf("%.0f", measure.Median(row.agent)),
			fmt.Sprintf("%.0f", measure.Median(row.constant)), measure.RatioOf(row.agent, row.constant).String()})
	}
	memory := fmt.Sprintf("%.1f", float64(peak)/(1<<20))
	run.Rows = append(run.Rows, []string{"peak memory, MiB", memory, "", ""})
	limit := microseconds(maxP99)
	p99, p99OfConstant := measure.Median(agent.p99), measure.Median(constant.p99)
	reached, undecided := latency.Compare(maxRatio)
	run.Targets = []measure.Target{
		{Title: fmt.Sprintf("latency at most %g x the constant", maxRatio), Detail: latency.String(), Reached: reached,
			Undecided: undecided},
		{Title: fmt.Sprintf("p99 under %s", maxP99), Reached: p99 < limit, Undecided: p99 >= limit && p99OfConstant >= limit,
			Detail: fmt.Sprintf("%.0f µs, the constant %.0f µs", p99, p99OfConstant)},
		{Title: fmt.Sprintf("peak memory under %d MiB", maxMemory>>20), Reached: peak < maxMemory, Counted: true,
			Detail: memory + " MiB"},
	}
	return run
}

func report(w io.Writer, o *options, run *measure.Run) error {
	fmt.Fprintf(w, "\n%d requests a second on %d connections, medians of %d rounds of %s; one core; %s\n\n",
		o.rate, o.connections, o.rounds, o.duration, run.Machine)
	fmt.Fprintln(w, run.RowsTable("/health", "Agent", "Constant", "Ratio"))
	return measure.Targets(w, run.Targets)
}
