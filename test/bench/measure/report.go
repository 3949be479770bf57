// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"io"
	"runtime"
)

// Machine describes the machine, for the first line of a report.
func Machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
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
		if !t.Undecided && !t.Reached && t.Counted {
			err = ErrMissed
		}
		fmt.Fprintf(w, "  %-11s  %-*s  %s\n", t.Word(), width, t.Title, t.Detail)
	}
	return err
}

// Word says whether the target is reached.
func (t *Target) Word() string {
	switch {
	case t.Undecided:
		return "undecided"
	case t.Reached:
		return "reached"
	}
	return "NOT reached"
}
