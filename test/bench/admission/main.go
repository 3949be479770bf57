// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command admission measures what admission costs the API server: its CPU time and the latency of a request, with and
// without the policies and webhooks of an installation. All setups run against one API server, in turns.
//
// docs/performance.md says what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodegate/nodegate/test/bench/measure"
)

type options struct {
	requests, clients, rounds int
	rules                     []int
	only, json                string
}

func (o *options) bind(fs *flag.FlagSet) {
	fs.IntVar(&o.requests, "requests", 200, "`number` of requests of each kind, in each round and setup")
	fs.IntVar(&o.clients, "clients", 4, "`number` of clients that send them")
	fs.IntVar(&o.rounds, "rounds", 3, "`number` of rounds, of which the medians are told")
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
	return nil
}

func main() {
	log.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context) (err error) {
	o := &options{}
	o.bind(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	if err := o.validate(); err != nil {
		return err
	}
	s, err := setUp(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	all, stolen := results{}, measure.Stolen()
	for _, part := range o.parts() {
		for round := range o.rounds {
			setups := slices.Clone(part.setups)
			if round%2 == 1 { // so that none is always the first
				slices.Reverse(setups)
			}
			for _, now := range setups {
				fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, now)
				if err := s.cluster.Compact(ctx); err != nil {
					return err
				}
				if err := s.measure(ctx, now, part.kinds, o, all); err != nil {
					return fmt.Errorf("%s, round %d: %w", now, round+1, err)
				}
			}
		}
	}
	run := o.result(all)
	run.Commit, run.Stolen = measure.Commit(ctx), (measure.Stolen() - stolen).Seconds()
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

// series are the measurements of one kind of request in one setup, round by round.
type series struct{ cpu, median, p99 []float64 } // in milliseconds

type results map[string]map[string]*series // by setup and kind of request

// measure makes a setup, sends requests of each kind, and removes the setup.
func (s *scene) measure(ctx context.Context, now setup, kinds []kind, o *options, all results) error {
	remove, err := s.install(ctx, now)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if all[now.String()] == nil {
			all[now.String()] = map[string]*series{}
		}
		if all[now.String()][k.name] == nil {
			all[now.String()][k.name] = &series{}
		}
		if err := s.send(ctx, k, o, all[now.String()][k.name]); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", k.name, err), remove(context.WithoutCancel(ctx)))
		}
	}
	return remove(ctx)
}

// send prepares, sends and cleans up the requests of one kind. Only what is sent is measured.
func (s *scene) send(ctx context.Context, k kind, o *options, out *series) error {
	s.batch++
	took := make([]time.Duration, o.requests)
	each := func(do func(context.Context, *scene, string) error, measured bool) error {
		if do == nil {
			return nil
		}
		clients, ctx := errgroup.WithContext(ctx)
		for first := range o.clients {
			clients.Go(func() error {
				for i := first; i < o.requests; i += o.clients {
					began := time.Now()
					if err := do(ctx, s, fmt.Sprintf("b%d-%d", s.batch, i)); err != nil {
						return err
					}
					if measured {
						took[i] = time.Since(began)
					}
				}
				return nil
			})
		}
		return clients.Wait()
	}
	if err := each(k.prepare, false); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	if err := s.collect(ctx); err != nil {
		return err
	}
	before, err := measure.CPU(s.cluster.APIServer.PID())
	if err != nil {
		return err
	}
	if err := each(k.send, true); err != nil {
		return err
	}
	after, err := measure.CPU(s.cluster.APIServer.PID())
	if err != nil {
		return err
	}
	out.cpu = append(out.cpu, milliseconds(after-before)/float64(o.requests))
	out.median = append(out.median, milliseconds(measure.Percentile(took, 50)))
	out.p99 = append(out.p99, milliseconds(measure.Percentile(took, 99)))
	if err := each(k.cleanUp, false); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	return nil
}

// collect makes the API server collect its garbage, so that each measurement begins with as little: a collection costs
// as much CPU as a hundred requests. The API server serves Go's profiles, and that of the heap asks for a collection.
func (s *scene) collect(ctx context.Context) error {
	return s.cluster.Clientset.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
