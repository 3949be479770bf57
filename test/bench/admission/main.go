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
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nodegate/nodegate/test/bench/measure"
)

const (
	// requests are sent of each kind, in each round and setup, by so many clients.
	requests, clients = 40, 4
)

func main() { measure.Main(start) }

func start(ctx context.Context) error {
	run := measure.NewRun(ctx, measure.Admission, 100)
	rules := []int{1, 20, 50, 200}
	flag.Func("rules", "`numbers` of rules, by default 1,20,50,200", func(text string) error {
		rules = nil
		for field := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a number of rules", field)
			}
			rules = append(rules, n)
		}
		return nil
	})
	if err := measure.ParseFlags(); err != nil {
		return err
	}
	// The heap profile of an API server without samples is short, and cheap to make.
	if err := os.Setenv("GODEBUG", "memprofilerate=0"); err != nil {
		return err
	}
	all := results{}
	for _, part := range []part{{nodeSetups(rules), nodeKinds}, {podSetups, podKinds}} {
		if err := part.measure(ctx, run.Rounds, all); err != nil {
			return err
		}
		part.report(run, all)
	}
	run.Targets = targets(all)
	return run.Finish()
}

// part are kinds of requests, and the setups in which they are measured.
type part struct {
	setups []setup
	kinds  []kind
}

// series are the measurements of one kind of request in one setup.
type series struct {
	cpu  []float64       // of the API server for each request, in milliseconds, round by round
	took []time.Duration // of each request
}

type results map[key]*series

// key is a setup and a kind of request.
type key struct {
	setup setup
	kind  string
}

// measure starts a control plane for each setup, and measures each kind of request in all of them.
func (p *part) measure(ctx context.Context, rounds int, all results) (err error) {
	log.Printf("starting %d control planes", len(p.setups))
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
		log.Printf("%s: %d rounds", k.name, rounds)
		for _, now := range p.setups {
			all[key{now, k.name}] = &series{}
		}
		for round := range rounds {
			for _, i := range rand.Perm(len(scenes)) {
				if err := scenes[i].turn(ctx, k, round, round == rounds-1, all[key{p.setups[i], k.name}]); err != nil {
					return fmt.Errorf("%s, %s, round %d: %w", p.setups[i], k.name, round+1, err)
				}
			}
		}
	}
	return nil
}

// turn sends the requests of one kind and round. Only what is sent is measured.
func (s *scene) turn(ctx context.Context, k kind, round int, last bool, out *series) error {
	s.round = round
	took := make([]time.Duration, requests)
	each := func(do func(context.Context, *scene, string) error) error {
		if do == nil {
			return nil
		}
		all, ctx := errgroup.WithContext(ctx)
		all.SetLimit(clients)
		for i := range requests {
			all.Go(func() error {
				began := time.Now()
				err := do(ctx, s, fmt.Sprintf("bench-%d", i))
				took[i] = time.Since(began)
				return err
			})
		}
		return all.Wait()
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
	out.cpu = append(out.cpu, milliseconds(used)/float64(requests))
	out.took = append(out.took, took...)
	if last || !k.repeats {
		if err := each(k.cleanUp); err != nil {
			return fmt.Errorf("cleaning up: %w", err)
		}
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// report adds what is measured to a run, in the order of the setups.
func (p *part) report(run *measure.Run, all results) {
	for _, k := range p.kinds {
		floor := all[key{p.setups[0], k.name}]
		for _, s := range p.setups {
			is := all[key{s, k.name}]
			run.Requests = append(run.Requests, measure.Request{Kind: k.name, Setup: s.String(), CPU: measure.Median(is.cpu),
				P50: milliseconds(measure.Percentile(is.took, 50)), P99: milliseconds(measure.Percentile(is.took, 99)),
				Ratio: measure.RatioOf(is.cpu, floor.cpu)})
		}
	}
}

// targets compares setups. A target with a setup that was not measured is left out.
func targets(all results) []measure.Target {
	var out []measure.Target
	none := setup{engine: nothing}
	for _, t := range []struct {
		title, kind string
		is, floor   setup
		most        float64
	}{
		{"patch with 50 rules over none, policy", "patch of a node", setup{policy, 50}, none, 1.2},
		{"creation with 50 rules over 1, policy", "creation of a node", setup{policy, 50}, setup{policy, 1}, 2.5},
		{"creation with 50 rules over 1, webhook", "creation of a node", setup{webhook, 50}, setup{webhook, 1}, 2},
		{"heartbeat with 50 rules over nothing, policy", "heartbeat", setup{policy, 50}, none, 1.05},
		{"heartbeat with 50 rules over nothing, webhook", "heartbeat", setup{webhook, 50}, none, 1.05},
	} {
		is, floor := all[key{t.is, t.kind}], all[key{t.floor, t.kind}]
		if is == nil || floor == nil {
			continue
		}
		out = append(out, measure.RatioTarget(fmt.Sprintf("%s, at most %g x", t.title, t.most),
			measure.RatioOf(is.cpu, floor.cpu), t.most))
	}
	return out
}

// cost returns the CPU time that the API server needs for the requests of a turn.
//
// A collection of its garbage costs as much as many requests, and would hit one turn and not another. So a turn begins
// after a collection, whose cost is measured, and pays for as much of the next one as it has brought it nearer: by what
// it has allocated, of what the heap may grow by.
func (s *scene) cost(ctx context.Context, send func() error) (time.Duration, error) {
	var before heap
	collecting, err := s.cpu(func() (err error) {
		before, err = s.heap(ctx, true)
		return err
	})
	if err != nil {
		return 0, err
	}
	used, err := s.cpu(send)
	if err != nil {
		return 0, err
	}
	after, err := s.heap(ctx, false)
	return used + time.Duration(after.collectionsSince(before)*float64(collecting)), err
}

// cpu returns the CPU time of the API server while something is done.
func (s *scene) cpu(do func() error) (time.Duration, error) {
	before, errBefore := measure.CPU(s.cluster.APIServer.PID())
	err := do()
	after, errAfter := measure.CPU(s.cluster.APIServer.PID())
	return after - before, errors.Join(errBefore, err, errAfter)
}

// heap is what Go's runtime tells about the heap of the API server, in bytes.
type heap struct {
	allocated   float64 // since the start
	size, limit float64 // now, and at which the next collection begins
	collections float64 // since the start
}

// heap collects the garbage of the API server, if asked to, and returns the state of its heap. The API server serves
// Go's profiles, which end with this state. To make one costs less than a hundredth of a collection.
func (s *scene) heap(ctx context.Context, collect bool) (heap, error) {
	get := s.cluster.Clientset.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("debug", "1")
	if collect {
		get = get.Param("gc", "1")
	}
	profile, err := get.Do(ctx).Raw()
	if err != nil {
		return heap{}, err
	}
	return parse(string(profile))
}

// parse reads the lines at the end of a heap profile, such as "# NextGC = 4194304".
func parse(profile string) (heap, error) {
	values := map[string]float64{}
	for line := range strings.Lines(profile) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = n
		}
	}
	h := heap{values["# TotalAlloc"], values["# HeapAlloc"], values["# NextGC"], values["# NumGC"]}
	if min(h.allocated, h.size, h.limit, h.collections) == 0 {
		return heap{}, errors.New("the heap profile of the API server does not tell the size of the heap")
	}
	return h, nil
}

// collectionsSince returns how many collections are due to what is allocated since a collection, without those that
// have begun already.
func (h heap) collectionsSince(collected heap) float64 {
	return (h.allocated-collected.allocated)/(collected.limit-collected.size) - (h.collections - collected.collections)
}
