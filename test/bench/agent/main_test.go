// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
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
	took, err := atRate(t.Context(), address, 500, 100*time.Millisecond)
	if err != nil || len(took) != 50 || len(served) != 50 {
		t.Errorf("%d requests sent, %d served, 50 expected: %v", len(took), len(served), err)
	}
	before := len(served)
	throughput, err := asFastAsItCan(t.Context(), address, 100*time.Millisecond)
	if err != nil || throughput <= 0 || len(served) == before {
		t.Errorf("%g requests a second, %d served: %v", throughput, len(served)-before, err)
	}
	fail = true
	if _, err = atRate(t.Context(), address, 500, 100*time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "503") {
		t.Errorf("an answer that is no 200: %v", err)
	}
}

func TestASlowAnswerCountsFromWhenItsRequestWasDue(t *testing.T) {
	began := time.Now()
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Until(began.Add(500 * time.Millisecond)))
		_, _ = w.Write([]byte(answer))
	})
	took, err := atRate(t.Context(), address, 200, 100*time.Millisecond)
	if err != nil || len(took) != 20 {
		t.Fatalf("%d requests: %v", len(took), err)
	}
	for _, d := range took { // all of them were due in the first 110 ms, most of them while an earlier one was under way
		if d < 100*time.Millisecond {
			t.Errorf("a request took %s", d)
		}
	}
}

func TestReport(t *testing.T) {
	agent := series{median: {100, 200, 200, 150, 170, 130}, p99: {500, 900, 800}}
	constant := series{median: {100, 100, 100, 100, 100, 100}, p99: {400, 400, 400}}
	check := func(peak uint64, fails bool, lines ...string) {
		t.Helper()
		run := &measure.Run{Evidence: measure.Agent}
		report(run, agent, constant, peak)
		if err := run.Finish(); (err != nil) != fails {
			t.Errorf("error: %v", err)
		}
		for _, line := range lines {
			if text, err := run.Table(); err != nil || !strings.Contains(text, line+" |\n") {
				t.Errorf("no line %q in\n%s", line, text)
			}
		}
	}
	check(20<<20, false, "| latency at most 2 x the constant | 1.60 (1.00-2.00), reached",
		"| p99 under 1ms | 800 µs, the constant 400 µs, reached", "| peak memory under 22 MiB | 20.0 MiB, reached")
	agent[p99] = []float64{2000, 2000, 800}
	agent[median][0] = 300 // the median of the rounds' ratios is still below 2
	check(22<<20, true, ", undecided", "| p99 under 1ms | 2000 µs, the constant 400 µs, NOT reached",
		"| peak memory under 22 MiB | 22.0 MiB, NOT reached")
	constant[p99] = []float64{3000, 3000, 3000} // the machine is too busy: the page tells why
	check(0, false, "| p99 under 1ms | 2000 µs, the constant 3000 µs, NOT reached")
}
