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
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodegate/nodegate/test/bench/command"
	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// workers is the number of nodes that the operator, and the floor, work on at a time; writers is the number of
	// conditions that are written at a time.
	workers, writers = 16, 32
	// heartbeats is how many each node sends, kubelet's and the reporters' in turns.
	heartbeats = 6
	// runLimit ends a run that hangs.
	runLimit = 12 * time.Hour
)

type options struct {
	nodes, rules, rounds int
	evidence             string
	json                 string
}

func main() { command.Main(start) }

func start(ctx context.Context) error {
	if len(os.Args) > 1 && os.Args[1] == "floor" {
		return floorMain(ctx, os.Args[2:])
	}
	o := &options{}
	flag.IntVar(&o.nodes, "nodes", 1000, "`number` of nodes")
	flag.IntVar(&o.rules, "rules", 1, "`number` of rules; all select all nodes, each has its own condition and taint")
	flag.IntVar(&o.rounds, "rounds", 3, "`number` of rounds; the report has their medians")
	flag.StringVar(&o.evidence, "evidence", measure.ByConditions,
		"what rules go by: `conditions` of the node, or pods, one on each node")
	flag.StringVar(&o.json, "json", "", "`file` for the numbers of the table, as JSON, for docs/bench")
	synthetic := flag.Bool("synthetic", false, "measure against a small server in memory instead of a control plane")
	outage := flag.Bool("outage", false, "with --synthetic: an outage of all nodes, with and without a limit")
	if err := command.ParseFlags(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	switch {
	case o.rules > 100:
		return fmt.Errorf("--rules: at most 100, not %d", o.rules)
	case o.evidence != measure.ByConditions && o.evidence != measure.ByPods:
		return fmt.Errorf("--evidence: must be %s or %s, not %q", measure.ByConditions, measure.ByPods, o.evidence)
	case *synthetic:
		return runSynthetic(ctx, o, *outage)
	case *outage:
		return errors.New("--outage: needs --synthetic")
	}
	return run(ctx, o)
}

func run(ctx context.Context, o *options) (err error) {
	run := measure.NewRun(ctx, o.evidence)
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "docs", "bench", "*.json"))
	if err != nil {
		return err
	}
	earlier, err := measure.Read(files)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()

	results := &results{}
	for round := range o.rounds {
		for _, name := range order(round) {
			say("round %d of %d: %s", round+1, o.rounds, name)
			phases, err := b.measure(ctx, name)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", name, round+1, err)
			}
			results.add(name, phases)
		}
		run.Nodes, run.Rules, run.Rounds, run.Lines = o.nodes, o.rules, round+1, results.lines()
		run.Guard(earlier)
		if err := run.Write(o.json); err != nil { // now: a run that is ended early keeps its rounds
			return err
		}
	}
	fmt.Print("\n" + run.Table())
	return results.complaints()
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
