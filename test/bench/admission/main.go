// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command admission measures what admission costs the API server: its CPU time and the latency of a request, with and
// without the policies and webhooks of an installation. Each setup has a control plane of its own, and all of them run
// at the same time. In each round, each gets a few requests, in a random order. So a round takes seconds, and a machine
// that gets slower or faster is as slow for all setups that a round compares.
//
// docs/performance.md says what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nodegate/nodegate/test/bench/command"
	"github.com/nodegate/nodegate/test/bench/measure"
)

type options struct {
	requests, clients, rounds int
	rules                     []int
	only, json                string
}

func (o *options) bind(fs *flag.FlagSet) {
	fs.IntVar(&o.requests, "requests", 40, "`number` of requests of each kind, in each round and setup")
	fs.IntVar(&o.clients, "clients", 4, "`number` of clients that send them")
	fs.IntVar(&o.rounds, "rounds", 100, "`number` of rounds, of which the medians are told")
	fs.StringVar(&o.only, "only", "", "only kinds of requests whose name contains this `text`, such as heartbeat")
	fs.StringVar(&o.json, "json", "", "`file` for the numbers of the tables, as JSON, for docs/bench")
	o.rules = []int{1, 20, 50, 200}
	fs.Func("rules", "`numbers` of rules, by default 1,20,50,200", func(text string) error {
		o.rules = nil
		for field := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a number of rules", field)
			}
			o.rules = append(o.rules, n)
		}
		return nil
	})
}

func (o *options) validate() error {
	if len(o.parts()) == 0 {
		return fmt.Errorf("there is no kind of request with %q in its name", o.only)
	}
	if min(o.requests, o.clients, o.rounds, len(o.rules)) < 1 {
		return errors.New("all numbers must be at least 1")
	}
	if o.rounds > 1000 {
		return errors.New("at most 1000 rounds")
	}
	return nil
}

func main() { command.Main(start) }

func start(ctx context.Context) error {
	o := &options{}
	if err := command.Parse(o.bind, o.validate); err != nil {
		return err
	}
	// The heap profile of an API server without samples is short, and cheap to make.
	if err := os.Setenv("GODEBUG", "memprofilerate=0"); err != nil {
		return err
	}
	all, commit, stolen := results{}, measure.Commit(ctx), measure.Stolen()
	for _, part := range o.parts() {
		if err := part.measure(ctx, o, all); err != nil {
			return err
		}
	}
	run := o.result(all)
	run.Commit, run.Stolen = commit, (measure.Stolen() - stolen).Seconds()
	if err := run.Write(o.json); err != nil {
		return err
	}
	return o.report(os.Stdout, run)
}

// part are kinds of requests, and the setups in which they are measured.
type part struct {
	setups []setup
	kinds  []kind
}

// parts returns what is measured.
func (o *options) parts() (out []part) {
	for _, p := range []part{{nodeSetups(o.rules), nodeKinds}, {podSetups, podKinds}} {
		p.kinds = slices.DeleteFunc(slices.Clone(p.kinds), func(k kind) bool { return !strings.Contains(k.name, o.only) })
		if len(p.kinds) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// series are the measurements of one kind of request in one setup.
type series struct {
	cpu  []float64       // of the API server for each request, in milliseconds, round by round
	took []time.Duration // of each request
}

type results map[string]map[string]*series // by setup and kind of request

// measure starts a control plane for each setup, and measures each kind of request in all of them.
func (p *part) measure(ctx context.Context, o *options, all results) (err error) {
	fmt.Fprintf(os.Stderr, "starting %d control planes\n", len(p.setups))
	scenes := make([]*scene, len(p.setups))
	defer func() {
		for _, s := range scenes {
			if s != nil {
				err = errors.Join(err, s.close())
			}
		}
	}()
	starts, starting := errgroup.WithContext(ctx)
	starts.SetLimit(2)
	for i, now := range p.setups {
		if all[now.String()] == nil {
			all[now.String()] = map[string]*series{}
		}
		starts.Go(func() (err error) {
			if scenes[i], err = setUp(starting, now); err != nil {
				return fmt.Errorf("%s: %w", now, err)
			}
			return nil
		})
	}
	if err := starts.Wait(); err != nil {
		return err
	}
	for _, k := range p.kinds {
		fmt.Fprintf(os.Stderr, "%s: %d rounds\n", k.name, o.rounds)
		for _, now := range p.setups {
			all[now.String()][k.name] = &series{}
		}
		for round := range o.rounds {
			for _, i := range rand.Perm(len(scenes)) {
				if err := scenes[i].turn(ctx, k, o, round, all[p.setups[i].String()][k.name]); err != nil {
					return fmt.Errorf("%s, %s, round %d: %w", p.setups[i], k.name, round+1, err)
				}
			}
		}
	}
	return nil
}

// turn sends the requests of one kind and round. Only what is sent is measured.
func (s *scene) turn(ctx context.Context, k kind, o *options, round int, out *series) error {
	s.round = round
	took := make([]time.Duration, o.requests)
	each := func(do func(context.Context, *scene, string) error) error {
		if do == nil {
			return nil
		}
		clients, ctx := errgroup.WithContext(ctx)
		for first := range o.clients {
			clients.Go(func() error {
				for i := first; i < o.requests; i += o.clients {
					began := time.Now()
					if err := do(ctx, s, fmt.Sprintf("bench-%d", i)); err != nil {
						return err
					}
					took[i] = time.Since(began)
				}
				return nil
			})
		}
		return clients.Wait()
	}
	if round == 0 || !k.repeats {
		if err := each(k.prepare); err != nil {
			return fmt.Errorf("preparing: %w", err)
		}
	}
	used, err := s.cost(ctx, func() error { return each(k.send) })
	if err != nil {
		return err
	}
	out.cpu = append(out.cpu, milliseconds(used)/float64(o.requests))
	out.took = append(out.took, took...)
	if round == o.rounds-1 || !k.repeats {
		if err := each(k.cleanUp); err != nil {
			return fmt.Errorf("cleaning up: %w", err)
		}
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
