// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package measure holds what the benches have in common: their flags, statistics, the CPU time and memory of processes,
// and the form of the numbers in docs/bench and of the tables that are made from them.
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
	if len(values) == 0 {
		return *new(T)
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
	// Median is the median of the rounds' ratios.
	Median float64
	// Low and High bound the median with a confidence of at least 95 %, or are the least and the greatest ratio of fewer
	// than six rounds, with which no bounds have that confidence.
	Low, High float64
	Rounds    int
}

// RatioOf compares two series, round by round.
func RatioOf(a, b []float64) Ratio {
	var each []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			each = append(each, a[i]/b[i])
		}
	}
	n := len(each)
	if n == 0 {
		return Ratio{}
	}
	slices.Sort(each)
	out := max(0, outside(n)-1)
	return Ratio{Median: Median(each), Low: each[out], High: each[n-1-out], Rounds: n}
}

// outside returns the rank of the lower bound of a median of n values, or 0 if they are too few. By the sign test, a
// median is below the value of rank k with the probability that fewer than k of n tosses of a coin show heads.
func outside(n int) (rank int) {
	tail, term := 0.0, math.Pow(0.5, float64(n))
	for i := range n {
		if tail += term; 2*tail > 0.05 {
			return i
		}
		term *= float64(n-i) / float64(i+1)
	}
	return n
}

// Compare reports whether the ratio is at most as great as it may be, or whether the rounds do not decide that.
func (r Ratio) Compare(most float64) (reached, undecided bool) {
	if outside(r.Rounds) == 0 || r.Low <= most && most < r.High {
		return false, true
	}
	return r.High <= most, false
}

// above reports whether the ratio surely is above a bound, if there is one.
func (r Ratio) above(most float64) bool {
	reached, undecided := r.Compare(most)
	return most > 0 && !reached && !undecided
}

// judged returns the ratio, and whether it is at most as great as it may be.
func (r Ratio) judged(most float64) string { return r.verdict(most, "reached", "missed") }

// guarded returns the ratio, and whether it is above a bound, unless there is none.
func (r Ratio) guarded(most float64) string {
	if most == 0 {
		return r.String()
	}
	return fmt.Sprintf("%s (at most %.2f)", r.verdict(most, "within", "regression"), most)
}

func (r Ratio) verdict(most float64, fine, bad string) string {
	switch reached, undecided := r.Compare(most); {
	case undecided:
		return r.String() + ", undecided"
	case reached:
		return r.String() + ", " + fine
	}
	return "**" + r.String() + ", " + bad + "**"
}

// String returns the median and, after several rounds, its bounds in parentheses.
func (r Ratio) String() string {
	switch {
	case r == Ratio{}:
		return "-"
	case r.Low == r.High:
		return fmt.Sprintf("%.2f", r.Median)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", r.Median, r.Low, r.High)
}
