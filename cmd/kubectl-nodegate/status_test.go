// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/nodegate/nodegate/internal/plugin/report"
)

func TestFramesAreDrawnOverEachOther(t *testing.T) {
	for _, c := range []struct {
		first bool
		width int
		want  string
	}{
		{true, 80, "\x1b[2J\x1b[HNo rules found: no node is held.\x1b[K\n\x1b[J"},
		{false, 80, "\x1b[HNo rules found: no node is held.\x1b[K\n\x1b[J"},
		{true, 0, "No rules found: no node is held.\n"}, // not a terminal
	} {
		if got := (frame{&report.RuleStatusList{}, c.first}).Text(report.Style{Width: c.width}); got != c.want {
			t.Errorf("first %t, width %d: got %q", c.first, c.width, strings.ReplaceAll(got, "\x1b", "ESC"))
		}
	}
}
