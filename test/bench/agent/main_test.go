// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func TestLoadCountsWhatIsAnswered(t *testing.T) {
	var served, fail = make(chan struct{}, 1<<16), false
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served <- struct{}{}
		if fail {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(answer))
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Close() //nolint:errcheck // done with it
	o := &options{rate: 500, connections: 4, rounds: 1, duration: 100 * time.Millisecond}
	took, err := atRate(t.Context(), l.Addr().String(), o)
	if err != nil || len(took) != 50 || len(served) != 50 {
		t.Errorf("%d requests sent, %d served, 50 expected: %v", len(took), len(served), err)
	}
	before := len(served)
	throughput, err := asFastAsItCan(t.Context(), l.Addr().String(), o)
	if err != nil || throughput <= 0 || len(served) == before {
		t.Errorf("%g requests a second, %d served: %v", throughput, len(served)-before, err)
	}
	fail = true
	if _, err := atRate(t.Context(), l.Addr().String(), o); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("an answer that is no 200: %v", err)
	}
}

func TestASlowAnswerCountsFromWhenItsRequestWasDue(t *testing.T) {
	first := true
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if first {
			first = false
			time.Sleep(200 * time.Millisecond)
		}
		_, _ = w.Write([]byte(answer))
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Close() //nolint:errcheck // done with it
	took, err := atRate(t.Context(), l.Addr().String(), &options{rate: 100, connections: 1, rounds: 1, duration: 100 * time.Millisecond})
	if err != nil || len(took) != 10 {
		t.Fatalf("%d requests: %v", len(took), err)
	}
	for i, d := range took { // all of them were due while the first was under way
		if least := 200*time.Millisecond - time.Duration(i)*10*time.Millisecond; d < least {
			t.Errorf("request %d took %s, at least %s expected", i, d, least)
		}
	}
}

func TestThisProcess(t *testing.T) {
	if peak, err := peakOf(os.Getpid()); err != nil || peak < 1<<20 {
		t.Errorf("%d bytes, %v", peak, err)
	}
	if _, err := cpuOf(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := peakOf(0); err == nil {
		t.Error("there is no such process")
	}
}

func TestReport(t *testing.T) {
	agent := &series{median: []float64{100, 300, 200}, p99: []float64{500, 900, 800}, worst: []float64{1, 1, 1}, cpu: []float64{3, 3, 3}, throughput: []float64{5, 5, 5}}
	constant := &series{median: []float64{100, 100, 100}, p99: []float64{400, 400, 400}, worst: []float64{1, 1, 1}, cpu: []float64{2, 2, 2}, throughput: []float64{10, 10, 10}}
	text := &strings.Builder{}
	if err := report(text, &options{}, agent, constant, 20<<20); err != nil {
		t.Error(err)
	}
	for _, line := range []string{
		fmt.Sprintf("%-28s %12d %12d %8.2f", "latency, median, µs", 200, 100, 2.0),
		fmt.Sprintf("%-28s %12d %12d %8.2f", "throughput, requests/s", 5, 10, 0.5),
		"reached      at most 2 x the latency of a constant",
		"reached      p99 under 1ms",
		"reached      peak memory under 25 MiB",
	} {
		if !strings.Contains(text.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	agent.p99[0] = 2000
	agent.p99[1] = 2000
	text.Reset()
	if err := report(text, &options{}, agent, constant, 25<<20); err == nil {
		t.Error("too much memory is no error")
	}
	if !strings.Contains(text.String(), "NOT REACHED  p99 under 1ms\nNOT REACHED  peak memory") {
		t.Errorf("got\n%s", text)
	}
	constant.p99 = []float64{3000, 3000, 3000}
	text.Reset()
	if err := report(text, &options{}, agent, constant, 0); err != nil || !strings.Contains(text.String(), "undecided    p99 under 1ms") {
		t.Errorf("a machine that is too busy: %v\n%s", err, text)
	}
}

func TestOptions(t *testing.T) {
	good := options{rate: 1000, connections: 8, rounds: 1, duration: time.Second}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*options){
		func(o *options) { o.rate = 0 }, func(o *options) { o.rounds = 0 }, func(o *options) { o.duration = 0 }, func(o *options) { o.connections = 1001 },
	} {
		o := good
		change(&o)
		if o.validate() == nil {
			t.Errorf("accepted: %+v", o)
		}
	}
}

func TestTheConstantIsNotStartedWithoutAPort(t *testing.T) {
	defer func(args []string) { os.Args = args }(os.Args)
	os.Args = []string{"agent", "constant", "no-port"}
	if err := serveConstant(context.Background()); err == nil {
		t.Error("it serves")
	}
}
