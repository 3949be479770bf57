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
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nodegate/nodegate/test/bench/command"
	"github.com/nodegate/nodegate/test/bench/measure"
)

type options struct {
	rate, connections, rounds int
	duration                  time.Duration
	json                      string
}

func (o *options) bind(fs *flag.FlagSet) {
	fs.IntVar(&o.rate, "rate", 1000, "`number` of requests a second at which latency is measured")
	fs.IntVar(&o.connections, "connections", 8, "`number` of connections that they come on")
	fs.IntVar(&o.rounds, "rounds", 6, "`number` of rounds, of which the medians are told")
	fs.StringVar(&o.json, "json", "", "`file` for the numbers of the table, as JSON, for docs/bench")
	fs.DurationVar(&o.duration, "duration", 5*time.Second, "for how long each of them is measured, in each round and way")
}

func (o *options) validate() error {
	if min(o.rate, o.connections, o.rounds) < 1 || o.duration <= 0 {
		return errors.New("all numbers must be at least 1")
	}
	if o.connections > o.rate {
		return fmt.Errorf("--connections: at most as many as --rate, %d, not %d", o.rate, o.connections)
	}
	return nil
}

func main() { command.Main(start) }

func start(ctx context.Context) error {
	if len(os.Args) == 3 && os.Args[1] == "constant" {
		return serveConstant(ctx)
	}
	o := &options{}
	if err := command.Parse(o.bind, o.validate); err != nil {
		return err
	}
	return run(ctx, o)
}

// contestants by their names in the table, the floor last.
const (
	agentName    = "agent"
	constantName = "constant"
)

func run(ctx context.Context, o *options) (err error) {
	commit, stolen := measure.Commit(ctx), measure.Stolen()
	s, err := setUp(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	all := map[string]*series{agentName: {}, constantName: {}}
	for round := range o.rounds {
		order := []string{agentName, constantName}
		if round%2 == 1 { // so that neither is always the first
			order = []string{constantName, agentName}
		}
		for _, name := range order {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, name)
			if err := all[name].measure(ctx, s.contestants[name], o); err != nil {
				return fmt.Errorf("%s, round %d: %w", name, round+1, err)
			}
		}
	}
	peak, err := measure.Peak(s.contestants[agentName].pid)
	if err != nil {
		return err
	}
	result := o.result(all[agentName], all[constantName], peak)
	result.Commit, result.Stolen = commit, (measure.Stolen() - stolen).Seconds()
	if err := result.Write(o.json); err != nil {
		return err
	}
	return report(os.Stdout, o, result)
}
