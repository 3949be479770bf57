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

func report(w io.Writer, o *options, agent, constant *series, peak uint64) error {
	fmt.Fprintf(w, "\n%d requests a second on %d connections, medians of %d rounds of %s; one core; %s\n\n",
		o.rate, o.connections, o.rounds, o.duration, measure.Machine())
	number := measure.Number("%.0f", 1)
	measure.Table(w, "/health", []string{agentName, constantName}, []int{0}, []measure.Row{
		{Title: "latency, median, µs", Series: [][]float64{agent.median, constant.median}, Format: number, Ratios: true},
		{Title: "latency, p99, µs", Series: [][]float64{agent.p99, constant.p99}, Format: number, Ratios: true},
		{Title: "latency, worst, µs", Series: [][]float64{agent.worst, constant.worst}, Format: number, Ratios: true},
		{Title: "CPU a request, µs", Series: [][]float64{agent.cpu, constant.cpu}, Format: number, Ratios: true},
		{Title: "throughput, requests/s", Series: [][]float64{agent.throughput, constant.throughput}, Format: number,
			Ratios: true},
		{Title: "peak memory, MiB", Series: [][]float64{{float64(peak)}}, Format: measure.Number("%.1f", 1<<20)},
	})
	latency, limit := measure.Ratio(agent.median, constant.median), microseconds(maxP99)
	p99, p99OfConstant := measure.Median(agent.p99), measure.Median(constant.p99)
	return measure.Targets(w, []measure.Target{
		{Title: fmt.Sprintf("latency at most %g x the constant", maxRatio), Reached: latency <= maxRatio,
			Detail: fmt.Sprintf("%.2f", latency)},
		{Title: fmt.Sprintf("p99 under %s", maxP99), Reached: p99 < limit, Undecided: p99 >= limit && p99OfConstant >= limit,
			Detail: fmt.Sprintf("%.0f µs, the constant %.0f µs", p99, p99OfConstant)},
		{Title: fmt.Sprintf("peak memory under %d MiB", maxMemory>>20), Reached: peak < maxMemory, Counted: true,
			Detail: fmt.Sprintf("%.1f MiB", float64(peak)/(1<<20))},
	})
}
