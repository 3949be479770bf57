// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nodegate/nodegate/test/bench/measure"
)

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
	before, err := measure.CPU(s.cluster.APIServer.PID())
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := measure.CPU(s.cluster.APIServer.PID())
	return after - before, err
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
