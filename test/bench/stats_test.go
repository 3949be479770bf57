// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		"of none it is zero":                            {nil, 50, 0},
		"of one it is that one":                         {[]int{7}, 1, 7},
		"the median of three is the middle one":         {[]int{9, 1, 5}, 50, 5},
		"the median of four is the lower middle one":    {[]int{4, 1, 3, 2}, 50, 2},
		"99 of a hundred is the second greatest":        {hundred, 99, 99},
		"a hundred is the greatest":                     {hundred, 100, 100},
		"zero is the least":                             {hundred, 0, 1},
		"99 of ten is the greatest, for 9 would be few": {[]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 99, 10},
	} {
		t.Run(name, func(t *testing.T) {
			if got := percentile(test.values, test.p); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestPercentileLeavesItsArgumentAlone(t *testing.T) {
	values := []int{3, 1, 2}
	percentile(values, 50)
	if diff := cmp.Diff([]int{3, 1, 2}, values); diff != "" {
		t.Error(diff)
	}
}

func TestMedian(t *testing.T) {
	for name, test := range map[string]struct {
		values []float64
		want   float64
	}{
		"of one":         {[]float64{3}, 3},
		"of two":         {[]float64{3, 4}, 3.5},
		"of three":       {[]float64{10, 1, 2}, 2},
		"of four":        {[]float64{10, 1, 2, 4}, 3},
		"of equal ones":  {[]float64{2, 2, 2}, 2},
		"of none is NaN": {nil, math.NaN()},
	} {
		t.Run(name, func(t *testing.T) {
			got := median(test.values)
			if got != test.want && !(math.IsNaN(got) && math.IsNaN(test.want)) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestRatios(t *testing.T) {
	got := ratios([]float64{3, 1, 5, 7}, []float64{2, 4, 0})
	if diff := cmp.Diff([]float64{1.5, 0.25}, got); diff != "" {
		t.Errorf("what has nothing to be compared with is left out: %s", diff)
	}
	if !math.IsNaN(ratio(1, 0)) {
		t.Error("a ratio to nothing is NaN")
	}
}

func TestOrderBringsEachToEachPlace(t *testing.T) {
	places := map[string]map[int]bool{}
	for round := range 3 {
		for place, name := range order(round) {
			if places[name] == nil {
				places[name] = map[int]bool{}
			}
			places[name][place] = true
		}
	}
	for name, seen := range places {
		if len(seen) != 3 {
			t.Errorf("%s was only at %v", name, seen)
		}
	}
	if len(places) != 3 {
		t.Errorf("contestants: %v", places)
	}
}
