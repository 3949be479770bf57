// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScreenDrawsInPlace(t *testing.T) {
	s := &screen{}
	for _, step := range []struct{ content, want string }{
		{"a\nb\n", "a\x1b[K\nb\x1b[K\n\x1b[J"},
		{"c\n", "\x1b[2Ac\x1b[K\n\x1b[J"},
		{"d\ne\nf\n", "\x1b[1Ad\x1b[K\ne\x1b[K\nf\x1b[K\n\x1b[J"},
		{"g\n", "\x1b[H\x1b[2Jg\x1b[K\n\x1b[J"}, // the last one did not fit
	} {
		if diff := cmp.Diff(step.want, s.frame(step.content, 3)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	s.leave()
	if got := s.frame("h\n", 3); got != "h\x1b[K\n\x1b[J" {
		t.Errorf("what was left is overwritten: %q", got)
	}
}
