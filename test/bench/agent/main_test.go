// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/bench/measure"
)

// serve answers requests until the test ends, and returns the address.
func serve(t *testing.T, answers http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(answers)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestLoadCountsWhatIsAnswered(t *testing.T) {
	var served, fail = make(chan struct{}, 1<<16), false
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		served <- struct{}{}
		if fail {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(answer))
	})
	o := &options{rate: 500, connections: 4, rounds: 1, duration: 100 * time.Millisecond}
	took, err := atRate(t.Context(), address, o)
	if err != nil || len(took) != 50 || len(served) != 50 {
		t.Errorf("%d requests sent, %d served, 50 expected: %v", len(took), len(served), err)
	}
	before := len(served)
	throughput, err := asFastAsItCan(t.Context(), address, o)
	if err != nil || throughput <= 0 || len(served) == before {
		t.Errorf("%g requests a second, %d served: %v", throughput, len(served)-before, err)
	}
	fail = true
	if _, err := atRate(t.Context(), address, o); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("an answer that is no 200: %v", err)
	}
}

func TestASlowAnswerCountsFromWhenItsRequestWasDue(t *testing.T) {
	first := true
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if first {
			first = false
			time.Sleep(200 * time.Millisecond)
		}
		_, _ = w.Write([]byte(answer))
	})
	took, err := atRate(t.Context(), address,
		&options{rate: 100, connections: 1, rounds: 1, duration: 100 * time.Millisecond})
	if err != nil || len(took) != 10 {
		t.Fatalf("%d requests: %v", len(took), err)
	}
	for i, d := range took { // all of them were due while the first was under way
		if least := 200*time.Millisecond - time.Duration(i)*10*time.Millisecond; d < least {
			t.Errorf("request %d took %s, at least %s expected", i, d, least)
		}
	}
}

func TestReport(t *testing.T) {
	one := []float64{1, 1, 1, 1, 1, 1}
	agent := &series{median: []float64{100, 200, 200, 150, 170, 130}, p99: []float64{500, 900, 800}, worst: one, cpu: one,
		throughput: one}
	constant := &series{median: []float64{100, 100, 100, 100, 100, 100}, p99: []float64{400, 400, 400}, worst: one,
		cpu: one, throughput: one}
	check := func(peak uint64, wantErr error, lines ...string) {
		t.Helper()
		text := &strings.Builder{}
		o := &options{}
		if err := report(text, o, o.result(agent, constant, peak)); !errors.Is(err, wantErr) {
			t.Errorf("error %v, not %v", err, wantErr)
		}
		for _, line := range lines {
			if !strings.Contains(text.String(), "  "+line) {
				t.Errorf("no line %q in\n%s", line, text)
			}
		}
	}
	check(20<<20, nil, "reached      latency at most 2 x", "reached      p99 under 1ms",
		"reached      peak memory under 22 MiB          20.0 MiB")
	agent.p99 = []float64{2000, 2000, 800}
	agent.median[0] = 300 // the median of the rounds' ratios is still below 2
	check(22<<20, measure.ErrMissed, "undecided    latency at most 2 x", "NOT reached  p99 under 1ms",
		"NOT reached  peak memory under 22 MiB")
	constant.p99 = []float64{3000, 3000, 3000} // the machine is too busy
	check(0, nil, "undecided    p99 under 1ms")
}
