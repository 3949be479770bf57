// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
