// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	got := &strings.Builder{}
	Table(got, "title", []string{"a", "long head", "b"}, []int{0, 2}, []Row{
		{Title: "longer title", Series: [][]float64{{2, 3, 9}, {2, 2, 3}, {0, 0, 0}}, Format: Number("%.1f s", 1),
			Ratios: true},
		{Title: "µ", Series: [][]float64{{3000}, nil, {0}}, Format: Number("%.0f k", 1000)},
		{Title: "one round", Series: [][]float64{{3}, {2}, {math.NaN()}}, Format: Number("%.0f", 1), Ratios: true},
		{Title: "to nothing", Series: [][]float64{{3, 3}, {0, 0}, {1}}, Format: Number("%.0f", 1), Ratios: true},
	})
	want := "" +
		"title                a  long head      b       a/long head       b/long head\n" +
		"   longer title  3.0 s      2.0 s  0.0 s  1.50 (1.00-3.00)  0.00 (0.00-0.00)\n" +
		"   µ               3 k          -    0 k\n" +
		"   one round         3          2      -              1.50                 -\n" +
		"   to nothing        3          0      1                 -                 -\n\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestTargets(t *testing.T) {
	got := &strings.Builder{}
	timed := []Target{{Title: "fast", Detail: "9 s"}, {Title: "busy machine", Undecided: true},
		{Title: "small", Reached: true, Counted: true}}
	if err := Targets(got, timed); err != nil {
		t.Errorf("no target that is counted is missed: %v", err)
	}
	want := "Targets\n  NOT reached  fast          9 s\n  undecided    busy machine  \n  reached      small         \n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
	if err := Targets(got, append(timed, Target{Counted: true})); !errors.Is(err, ErrMissed) {
		t.Errorf("a target that is counted is missed: %v", err)
	}
}
