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
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodegate/nodegate/test/bench/measure"
	"github.com/nodegate/nodegate/test/cluster"
)

const (
	// workers is the number of nodes that the operator, and the floor, work on at a time; writers is the number of
	// conditions that are written at a time.
	workers, writers = 16, 32
	// heartbeats is how many each node sends, kubelet's and the reporters' in turns. Of more than warm nodes, each sends
	// fewer. As many nodes warm up the API server.
	heartbeats, warm = 6, 1000
	// runLimit ends a run that hangs.
	runLimit = 12 * time.Hour
)

func main() { measure.Main(start) }

func start(ctx context.Context) error {
	if len(os.Args) > 1 && os.Args[1] == "floor" {
		return floorMain(ctx, os.Args[2:])
	}
	run := measure.NewRun(ctx, measure.ByConditions, 3)
	flag.IntVar(&run.Nodes, "nodes", 1000, "`number` of nodes")
	flag.IntVar(&run.Rules, "rules", 1, "`number` of rules; all select all nodes, each has its own condition and taint")
	flag.StringVar(&run.Evidence, "evidence", run.Evidence,
		"what rules go by: `conditions` of the node, or pods, one on each node")
	synthetic := flag.Bool("synthetic", false, "measure against a small server in memory instead of a control plane")
	phases := flag.Int("phases", len(phaseTitles), "`number` of phases, from the first, in which rules are applied")
	outage := flag.Bool("outage", false, "with --synthetic: an outage of all nodes, with and without a limit")
	if err := measure.ParseFlags(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	switch {
	case run.Rules > 100:
		return fmt.Errorf("--rules: at most 100, not %d", run.Rules)
	case run.Evidence != measure.ByConditions && run.Evidence != measure.ByPods:
		return fmt.Errorf("--evidence: must be %s or %s, not %q", measure.ByConditions, measure.ByPods, run.Evidence)
	case *synthetic:
		return runSynthetic(ctx, run, *outage)
	case *outage:
		return errors.New("--outage: needs --synthetic")
	}
	return runRounds(ctx, run, phaseTitles[:min(*phases, len(phaseTitles))])
}

func runRounds(ctx context.Context, run *measure.Run, phases []string) (err error) {
	files, errGlob := filepath.Glob(filepath.Join(cluster.Root(), "docs", "bench", "*.json"))
	earlier, err := measure.Read(files) // before this run takes the place of one of them
	if err := errors.Join(errGlob, err); err != nil {
		return err
	}
	b := &bench{Run: run, watch: newObserver(run.Nodes), phases: phases}
	defer func() {
		if b.cluster != nil {
			err = errors.Join(err, b.cluster.Stop())
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := b.setUp(ctx); err != nil {
		return err
	}

	results := results{}
	run.Planned = run.Rounds
	for round := range run.Planned {
		for _, name := range order(round) {
			log.Printf("round %d of %d: %s", round+1, run.Planned, name)
			phases, err := b.measure(ctx, name)
			switch {
			case err != nil && ctx.Err() != nil && run.Lines != nil:
				log.Printf("ended early: %d of %d rounds are complete", run.Rounds, run.Planned)
				return run.Finish()
			case err != nil:
				err = fmt.Errorf("%s, round %d: %w", name, round+1, err)
				run.Complaints = append(run.Complaints, err.Error()) // the rounds before it are no result
				return errors.Join(err, run.Write())
			}
			results[name] = append(results[name], phases)
		}
		run.Rounds, run.Lines, run.Complaints = round+1, results.lines(), results.complaints()
		run.Guard(earlier)
		if err := run.Write(); err != nil { // now: a run that is killed keeps its rounds
			return err
		}
	}
	return run.Finish()
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
