// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent measures the node agent's /health against the floor: a handler that answers a constant, on the same
// server, with the same body. Both run as processes of their own, each held to one and the same core, and are asked in
// turns.
//
// "agent constant" is that handler itself. docs/performance.md says what is measured and how.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/nodegate/nodegate/test/bench/measure"
)

func main() { measure.Main(start) }

func start(ctx context.Context) (err error) {
	if len(os.Args) == 3 && os.Args[1] == constantName {
		return serveConstant(ctx)
	}
	run := measure.NewRun(ctx, measure.Agent, 6)
	if err := measure.ParseFlags(); err != nil {
		return err
	}
	s := &scene{contestants: map[string]*contestant{}}
	defer func() {
		if s.cluster != nil {
			err = errors.Join(err, s.cluster.Stop())
		}
	}()
	if err := s.setUp(ctx); err != nil {
		return err
	}
	all := map[string]series{agentName: {}, constantName: {}}
	order := []string{agentName, constantName}
	for round := range run.Rounds {
		for _, name := range order {
			log.Printf("round %d of %d: %s", round+1, run.Rounds, name)
			if err := all[name].measure(ctx, s.contestants[name]); err != nil {
				return fmt.Errorf("%s, round %d: %w", name, round+1, err)
			}
		}
		slices.Reverse(order) // so that neither is always the first
	}
	peak, err := measure.Peak(s.contestants[agentName].pid)
	if err != nil {
		return err
	}
	report(run, all[agentName], all[constantName], peak)
	return run.Finish()
}

const (
	// contestants by their names in the table
	agentName, constantName = "agent", "constant"
	// rate is the number of requests a second at which latency is measured, and duration is for how long each contestant
	// is measured, in each round and way.
	rate, duration = 1000, 5 * time.Second

	// Targets of the agent.
	maxRatio  = 2.0
	maxP99    = time.Millisecond
	maxMemory = 22 << 20
)

// The rows of the table.
const (
	median     = "latency, median, µs"
	p99        = "latency, p99, µs"
	worst      = "latency, worst, µs"
	cpu        = "CPU a request, µs"
	throughput = "requests a second at most"
)

// series are the measurements of one contestant, by row, round by round.
type series map[string][]float64

func (s series) add(row string, value float64) { s[row] = append(s[row], value) }

func (s series) measure(ctx context.Context, c *contestant) error {
	before, errBefore := measure.CPU(c.pid)
	took, err := atRate(ctx, c.address, rate, duration)
	after, errAfter := measure.CPU(c.pid)
	if err := errors.Join(errBefore, err, errAfter); err != nil {
		return err
	}
	s.add(median, microseconds(measure.Percentile(took, 50)))
	s.add(p99, microseconds(measure.Percentile(took, 99)))
	s.add(worst, microseconds(measure.Percentile(took, 100)))
	s.add(cpu, microseconds(after-before)/float64(len(took)))
	most, err := asFastAsItCan(ctx, c.address, duration)
	s.add(throughput, most)
	return err
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// report fills in the rows and the targets of a run.
func report(run *measure.Run, agent, constant series, peak uint64) {
	for _, row := range []string{median, p99, worst, cpu, throughput} {
		run.Rows = append(run.Rows, []string{row, fmt.Sprintf("%.0f", measure.Median(agent[row])),
			fmt.Sprintf("%.0f", measure.Median(constant[row])), measure.RatioOf(agent[row], constant[row]).String()})
	}
	memory := fmt.Sprintf("%.1f", float64(peak)/(1<<20))
	run.Rows = append(run.Rows, []string{"peak memory, MiB", memory, "", ""})
	limit, is, floor := microseconds(maxP99), measure.Median(agent[p99]), measure.Median(constant[p99])
	run.Targets = []measure.Target{
		measure.RatioTarget(fmt.Sprintf("latency at most %g x the constant", maxRatio),
			measure.RatioOf(agent[median], constant[median]), maxRatio),
		{Title: fmt.Sprintf("p99 under %s", maxP99), Reached: is < limit,
			Detail: fmt.Sprintf("%.0f µs, the constant %.0f µs", is, floor)},
		{Title: fmt.Sprintf("peak memory under %d MiB", maxMemory>>20), Reached: peak < maxMemory, Counted: true,
			Detail: memory + " MiB"},
	}
}
