// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// percentile is the smallest of the values that at least p percent of them do not exceed (the nearest rank), 0 of none.
func percentile[T cmp.Ordered](values []T, p float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median is the middle value, or the mean of the two in the middle; NaN of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratio is NaN where there is nothing to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// ratios are those of two series, round by round.
func ratios(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		if r := ratio(a[i], b[i]); !math.IsNaN(r) {
			out = append(out, r)
		}
	}
	return out
}

func earliest(times []time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }
func latest(times []time.Time) time.Time   { return slices.MaxFunc(times, time.Time.Compare) }
