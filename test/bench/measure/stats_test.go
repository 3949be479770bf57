// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i // not in order
	}
	for name, test := range map[string]struct {
		values []int
		p      float64
		want   int
	}{
		"of none it is zero":                         {nil, 50, 0},
		"the median of three is the middle one":      {[]int{9, 1, 5}, 50, 5},
		"the median of four is the lower middle one": {[]int{4, 1, 3, 2}, 50, 2},
		"99 of a hundred is the second greatest":     {hundred, 99, 99},
		"a hundred is the greatest":                  {hundred, 100, 100},
		"99 of ten is the greatest":                  {[]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 99, 10},
	} {
		before := append([]int{}, test.values...)
		if got := Percentile(test.values, test.p); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("%s: the argument has changed: %v", name, test.values)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{3: {3}, 3.5: {3, 4}, 2: {10, 1, 2}, 5: {10, 1, 4, 6}, 7: {7, 7, 7}} {
		if got := Median(values); got != want {
			t.Errorf("of %v: got %v, want %v", values, got, want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("of none: got %v", got)
	}
}

func TestRatioOf(t *testing.T) {
	twelve, one := []float64{9, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	for want, series := range map[string][2][]float64{
		"1.50 (0.50-3.00)":  {{3, 1, 9}, {2, 2, 3}},
		"1.00 (0.50-4.00)":  {{1, 4, 100}, {2, 1, 100}}, // the ratio of the medians is 2
		"0.88 (0.25-1.50)":  {{3, 1, 5}, {2, 4, 0}},     // a round with nothing to compare with is left out
		"1.50":              {{3}, {2}},
		"-":                 {{3, 3}, {0, 0}},
		"3.50 (1.00-6.00)":  {twelve[1:7], one}, // with 96.9 %
		"6.50 (3.00-10.00)": {twelve, one},      // with 96.1 %
	} {
		if got := RatioOf(series[0], series[1]).String(); got != want {
			t.Errorf("%v: %s, want %s", series, got, want)
		}
	}
}

func TestRoundsDecideOnlyIfTheBoundsAreOnOneSide(t *testing.T) {
	for ratio, want := range map[Ratio]string{
		{Low: 1, High: 1.1, Rounds: 6}: "reached", {Low: 1.2, High: 1.2, Rounds: 6}: "reached",
		{Low: 1.21, High: 1.3, Rounds: 6}: "missed**", {Low: 1, High: 1.3, Rounds: 12}: "undecided",
		{Low: 1, High: 1, Rounds: 5}: "undecided", {}: "undecided",
	} {
		if got := ratio.judged(1.2); !strings.HasSuffix(got, ", "+want) {
			t.Errorf("%+v: %s, want %s", ratio, got, want)
		}
	}
}

func TestTheFirstRunOfASizeGuardsTheLeanFloor(t *testing.T) {
	run := func(wall, p99 float64) *Run {
		all := func(ratio float64) Ratio { return Ratio{Median: ratio, Low: ratio - 0.1, High: ratio + 0.1, Rounds: 6} }
		return &Run{Commit: "c1", Nodes: 1000, Rules: 20, Rounds: 6, Evidence: ByConditions, Lines: []Line{
			{Phase: "operator: all evidence turns good", Lean: Ratios{Wall: all(wall), P99: all(p99)}}}}
	}
	other, short := run(9, 9), run(9, 9)
	other.Evidence, short.Rounds = ByPods, 5
	for want, now := range map[string]*Run{
		"0.90 (0.80-1.00), within (at most 1.10) | **3.00 (2.90-3.10), regression** (at most 2.20)": run(0.9, 3),
		"1.05 (0.95-1.15), undecided (at most 1.10) | 2.00 (1.90-2.10), within (at most 2.20)":      run(1.05, 2),
	} {
		for _, before := range [][]*Run{{run(1, 2), other}, {other, run(1, 2)}} {
			now.Guard(before)
			l := now.Lines[0]
			if got := l.Lean.Wall.guarded(l.LeanMost.Wall) + " | " + l.Lean.P99.guarded(l.LeanMost.P99); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if err := now.Finish(); (err != nil) != strings.Contains(want, "regression") {
				t.Errorf("the bench of %s ends with the error %v", want, err)
			}
			third := run(9, 9) // has the bounds of the first, not of the second
			now.Rounds = 1
			third.Guard([]*Run{now})
			if third.GuardedBy != "commit c1 (6 rounds)" || third.Lines[0].LeanMost != l.LeanMost {
				t.Errorf("the third run has the bounds %+v of %s", third.Lines[0].LeanMost, third.GuardedBy)
			}
		}
	}
	first := run(1, 1)
	first.Guard([]*Run{other, short})
	if l := first.Lines[0]; first.GuardedBy != "" || l.Lean.Wall.guarded(l.LeanMost.Wall) != "1.00 (0.90-1.10)" {
		t.Errorf("the first run of a size has the bounds %+v", l.LeanMost)
	}
}

func TestThisProcess(t *testing.T) {
	m, err := NewMeter(os.Getppid(), os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	var used Usage
	for began := time.Now(); used.Bench < 20*time.Millisecond && time.Since(began) < 30*time.Second; {
		if used, err = m.Usage(); err != nil {
			t.Fatal(err)
		}
	}
	if used.Bench < 20*time.Millisecond || used.Others < 0 {
		t.Errorf("%+v", used)
	}
	if peak, err := Peak(os.Getpid()); err != nil || peak < 1<<20 {
		t.Errorf("%d bytes, %v", peak, err)
	}
	if _, err := CPU(-1); err == nil {
		t.Error("there is no such process")
	}
	if _, err := Peak(-1); err == nil {
		t.Error("there is no such process")
	}
}

func TestTheClockOfAProcessIsFinerThanATick(t *testing.T) {
	last, err := CPU(os.Getpid())
	least := time.Hour
	for began := time.Now(); err == nil && least > time.Millisecond && time.Since(began) < 30*time.Second; {
		var now time.Duration
		if now, err = CPU(os.Getpid()); now > last {
			least, last = min(least, now-last), now
		}
	}
	if err != nil || least > time.Millisecond && errProc == nil {
		t.Errorf("%v at least, %v", least, err)
	}
}
