// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package measure holds what the benches of the operator and of the node agent have in common: statistics, the CPU time
// and memory of processes, and the form of the report.
package measure

import (
	"cmp"
	"math"
	"slices"
)

// Percentile returns the smallest of the values that at least p percent of them do not exceed (the nearest rank), or 0
// if there are none.
func Percentile[T cmp.Ordered](values []T, p float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median returns the middle value, or the mean of the two in the middle, or NaN if there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Ratio returns the ratio of the medians, or NaN if it is one to nothing.
func Ratio(a, b []float64) float64 {
	if m := Median(b); m != 0 {
		return Median(a) / m
	}
	return math.NaN()
}

// ratios returns the ratios round by round, without those to nothing.
func ratios(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return out
}
