// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator against two floors: bare loops that watch nodes and send one patch each. All run
// as processes of their own, one after the other, on the same nodes of the same local etcd and API server. What they do
// is counted by others: by the API server's audit log, by a watch of the bench, and by the kernel.
//
// "bench floor" is a bare loop itself. docs/performance.md says what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nodegate/nodegate/test/bench/command"
	"github.com/nodegate/nodegate/test/bench/measure"
)

// workers is the number of nodes that the operator, and the floor, work on at a time; writers is the number of
// conditions that are written at a time.
const workers, writers = 16, 32

type options struct {
	nodes, rules, rounds int
	heartbeats           int
	evidence             string
	// synthetic is whether a synthetic server takes the place of the control plane. Only then can there be an outage.
	synthetic, outage bool
	json              string
	commit            string
	timeout           time.Duration
}

func (o *options) bind(fs *flag.FlagSet) {
	fs.IntVar(&o.nodes, "nodes", 1000, "`number` of nodes")
	fs.IntVar(&o.rules, "rules", 1, "`number` of rules; all select all nodes, each has a condition and a taint of its own")
	fs.IntVar(&o.rounds, "rounds", 3, "`number` of rounds; the report has their medians")
	fs.IntVar(&o.heartbeats, "heartbeats", 6, "`number` of heartbeats of each node, kubelet's and the reporters' in turns")
	fs.StringVar(&o.evidence, "evidence", byConditions,
		"what rules go by: `conditions` of the node, or pods, one on each node")
	fs.StringVar(&o.json, "json", "", "`file` for the numbers of the table, as JSON, for docs/bench")
	fs.BoolVar(&o.synthetic, "synthetic", false, "measure against a small server in memory instead of a control plane")
	fs.BoolVar(&o.outage, "outage", false, "with --synthetic: an outage of all nodes, with and without a limit")
	fs.DurationVar(&o.timeout, "timeout", 3*time.Hour, "for how long it may run in all")
}

func (o *options) validate() error {
	if min(o.nodes, o.rules, o.rounds, o.heartbeats) < 1 {
		return errors.New("all numbers must be at least 1")
	}
	if o.rules > 100 {
		return fmt.Errorf("--rules: at most 100, not %d", o.rules)
	}
	if o.outage && !o.synthetic {
		return errors.New("--outage: needs --synthetic")
	}
	if o.evidence != byConditions && o.evidence != byPods {
		return fmt.Errorf("--evidence: must be %s or %s, not %q", byConditions, byPods, o.evidence)
	}
	return nil
}

func main() { command.Main(start) }

func start(ctx context.Context) error {
	if len(os.Args) > 1 && os.Args[1] == "floor" {
		return floorMain(ctx, os.Args[2:])
	}
	o := &options{}
	if err := command.Parse(o.bind, o.validate); err != nil {
		return err
	}
	return run(ctx, o)
}

func run(ctx context.Context, o *options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	o.commit = measure.Commit(ctx)
	if o.synthetic {
		return runSynthetic(ctx, o)
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()

	before, stolen := measure.LoadAverage(), measure.Stolen()
	results, run := &results{options: o}, &measure.Run{}
	for round := range o.rounds {
		for _, name := range order(round) {
			say("round %d of %d: %s", round+1, o.rounds, name)
			phases, err := b.measure(ctx, name)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", name, round+1, err)
			}
			results.add(name, phases)
		}
		run = o.result(results.lines())
		run.Rounds, run.Stolen = round+1, (measure.Stolen() - stolen).Seconds()
		if err := run.Write(o.json); err != nil { // now: a run that is ended early keeps its rounds
			return err
		}
	}
	fmt.Printf("\nload average %.2f before and %.2f after\n\n", before, measure.LoadAverage())
	return results.print(os.Stdout, run)
}

// result returns what --json writes.
func (o *options) result(lines []measure.Line) *measure.Run {
	return &measure.Run{Commit: o.commit, Machine: measure.Machine(), Nodes: o.nodes, Rules: o.rules,
		Rounds: o.rounds, Evidence: o.evidence, Lines: lines}
}

// order returns the order of the contestants in a round. Six rounds have all orders: the first has a server that is
// less warm, and the last one that has more history.
func order(round int) []string {
	first := round / 2 % len(contestants)
	out := append(slices.Clone(contestants[first:]), contestants[:first]...)
	if round%2 == 1 {
		slices.Reverse(out)
	}
	return out
}

var began = time.Now()

// say prints progress to stderr.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

// progress writes the lines of other processes as say does.
type progress struct{}

func (progress) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		say("%s", strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}
