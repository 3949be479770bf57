// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package measure holds what the benches of the operator and of the node agent have in common: statistics, the CPU time
// and memory of processes, and the form of the report.
package measure

import (
	"cmp"
	"fmt"
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

// Ratio is a ratio to the floor, or zero if there is none.
type Ratio struct {
	// Median is the ratio of the medians. Least and Most are those of a round.
	Median, Least, Most float64
}

// RatioOf compares two series, round by round.
func RatioOf(a, b []float64) Ratio {
	var each []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			each = append(each, a[i]/b[i])
		}
	}
	if len(each) == 0 || Median(b) == 0 {
		return Ratio{}
	}
	return Ratio{Median: Median(a) / Median(b), Least: slices.Min(each), Most: slices.Max(each)}
}

// String returns the ratio of the medians and, after several rounds, the others in parentheses.
func (r Ratio) String() string {
	switch {
	case r == Ratio{}:
		return "-"
	case r.Least == r.Most:
		return fmt.Sprintf("%.2f", r.Median)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", r.Median, r.Least, r.Most)
}
