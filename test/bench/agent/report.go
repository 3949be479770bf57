// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"
)

// Targets of the agent.
const (
	maxRatio  = 2.0
	maxP99    = time.Millisecond
	maxMemory = 25 << 20
)

// series is what was measured of one contestant, round by round.
type series struct {
	median, p99, worst []float64 // in microseconds
	throughput         []float64 // in requests a second
	cpu                []float64 // in microseconds a request
}

func (s *series) measure(ctx context.Context, c *contestant, o *options) error {
	before, err := cpuOf(c.pid)
	if err != nil {
		return err
	}
	took, err := atRate(ctx, c.address, o)
	if err != nil {
		return err
	}
	after, err := cpuOf(c.pid)
	if err != nil {
		return err
	}
	slices.Sort(took)
	s.median = append(s.median, microseconds(percentile(took, 50)))
	s.p99 = append(s.p99, microseconds(percentile(took, 99)))
	s.worst = append(s.worst, microseconds(took[len(took)-1]))
	s.cpu = append(s.cpu, microseconds(after-before)/float64(len(took)))
	throughput, err := asFastAsItCan(ctx, c.address, o)
	s.throughput = append(s.throughput, throughput)
	return err
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// percentile is the smallest of the sorted values that at least p percent of them do not exceed (the nearest rank).
func percentile(sorted []time.Duration, p float64) time.Duration {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// median is the middle value, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratio is the median of the ratios, round by round.
func ratio(a, b []float64) float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	return median(all)
}

// errMemory is the error of a target that is counted, not timed, and therefore the same on each machine.
var errMemory = errors.New("the agent has used more memory than it may")

func report(w io.Writer, o *options, agent, constant *series, peak int64) error {
	fmt.Fprintf(w, "\n%d requests a second on %d connections, medians of %d rounds of %s; one core; %s/%s, %s\n\n",
		o.rate, o.connections, o.rounds, o.duration, runtime.GOOS, runtime.GOARCH, runtime.Version())
	fmt.Fprintf(w, "%-28s %12s %12s %8s\n", "", agentName, constantName, "ratio")
	for _, row := range []struct {
		name            string
		agent, constant []float64
	}{
		{"latency, median, µs", agent.median, constant.median},
		{"latency, p99, µs", agent.p99, constant.p99},
		{"latency, worst, µs", agent.worst, constant.worst},
		{"CPU a request, µs", agent.cpu, constant.cpu},
		{"throughput, requests/s", agent.throughput, constant.throughput},
	} {
		fmt.Fprintf(w, "%-28s %12.0f %12.0f %8.2f\n", row.name, median(row.agent), median(row.constant), ratio(row.agent, row.constant))
	}
	fmt.Fprintf(w, "%-28s %12.1f\n\n", "peak memory, MiB", float64(peak)/(1<<20))
	verdict := func(reached bool, format string, args ...any) {
		word := "reached"
		if !reached {
			word = "NOT REACHED"
		}
		fmt.Fprintf(w, "%-12s %s\n", word, fmt.Sprintf(format, args...))
	}
	verdict(ratio(agent.median, constant.median) <= maxRatio, "at most %g x the latency of a constant", maxRatio)
	if median(agent.p99) >= microseconds(maxP99) && median(constant.p99) >= microseconds(maxP99) {
		fmt.Fprintf(w, "%-12s p99 under %s: on this machine, at this moment, not even a constant's is\n", "undecided", maxP99)
	} else {
		verdict(median(agent.p99) < microseconds(maxP99), "p99 under %s", maxP99)
	}
	verdict(peak < maxMemory, "peak memory under %d MiB", maxMemory>>20)
	if peak >= maxMemory {
		return errMemory
	}
	return nil
}
