// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
)

// Machine describes the machine, for the first line of a report.
func Machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// Row is a line of a table: one number of each contestant, round by round.
type Row struct {
	Title  string
	Series [][]float64
	Format func(float64) string
	// Ratios adds the ratios that the head of the table asks for.
	Ratios bool
}

// Table prints the medians of rows. contestants are the heads of the columns, the floor second; ratios are the indexes
// of the contestants that are compared with the floor.
func Table(w io.Writer, title string, contestants []string, ratios []int, rows []Row) {
	const floor = 1
	head := append([]string{title}, contestants...)
	for _, i := range ratios {
		head = append(head, contestants[i]+"/"+contestants[floor])
	}
	lines := [][]string{head}
	for _, row := range rows {
		line := []string{"   " + row.Title}
		for _, s := range row.Series {
			line = append(line, row.Format(Median(s)))
		}
		if row.Ratios {
			for _, i := range ratios {
				line = append(line, formatRatio(row.Series[i], row.Series[floor]))
			}
		}
		lines = append(lines, line)
	}
	fmt.Fprintln(w, align(lines))
}

// Number returns a function that formats a number that is a multiple of a unit, or "-" for NaN.
func Number(format string, unit float64) func(float64) string {
	return func(v float64) string {
		if math.IsNaN(v) {
			return "-"
		}
		return fmt.Sprintf(format, v/unit)
	}
}

// formatRatio formats the ratio of the medians and, in parentheses, the least and the greatest ratio of a round.
func formatRatio(a, b []float64) string {
	text := Number("%.2f", 1)(Ratio(a, b))
	if each := ratios(a, b); len(each) > 1 && text != "-" {
		text += fmt.Sprintf(" (%.2f-%.2f)", slices.Min(each), slices.Max(each))
	}
	return text
}

// align makes columns: the first one to the left, the others to the right.
func align(lines [][]string) string {
	widths := make([]int, len(slices.MaxFunc(lines, func(a, b []string) int { return len(a) - len(b) })))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	b := &strings.Builder{}
	for _, line := range lines {
		text := &strings.Builder{}
		fmt.Fprintf(text, "%-*s", widths[0], line[0])
		for i, cell := range line[1:] {
			fmt.Fprintf(text, "  %*s", widths[i+1], cell)
		}
		fmt.Fprintln(b, strings.TrimRight(text.String(), " "))
	}
	return b.String()
}

// Target is a goal of a bench, and whether it is reached.
type Target struct {
	Title   string
	Reached bool
	// Undecided says that the machine is too busy to tell.
	Undecided bool
	// Counted says that the target is counted and not timed: it does not depend on how busy the machine is.
	Counted bool
	Detail  string
}

// ErrMissed is the error of a bench that has missed a target that is counted.
var ErrMissed = errors.New("a target that is counted, not timed, is not reached")

// Targets prints which targets are reached, and returns ErrMissed if one is missed that is counted.
func Targets(w io.Writer, targets []Target) (err error) {
	width := 0
	for _, t := range targets {
		width = max(width, len(t.Title))
	}
	fmt.Fprintln(w, "Targets")
	for _, t := range targets {
		word := "NOT reached"
		switch {
		case t.Undecided:
			word = "undecided"
		case t.Reached:
			word = "reached"
		case t.Counted:
			err = ErrMissed
		}
		fmt.Fprintf(w, "  %-11s  %-*s  %s\n", word, width, t.Title, t.Detail)
	}
	return err
}
