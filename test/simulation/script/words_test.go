// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strings"
	"testing"
)

func TestShrinkKeepsOnlyWhatFails(t *testing.T) {
	s := Generate(1, 100)
	s.Steps[20].Do, s.Steps[70].Do = "needed", "too"
	short := Shrink(s, 1000, func(s *Script) bool {
		text := s.String()
		return strings.Contains(text, "needed") && strings.Contains(text, "too")
	})
	if len(short.Steps) != 2 {
		t.Errorf("%d steps are left: %s", len(short.Steps), short)
	}
}

func TestStoriesAreInWords(t *testing.T) {
	for seed := range uint64(50) {
		s := Generate(seed, 100)
		for i := range s.Steps {
			if text := s.Steps[i].String(); text == s.Steps[i].Do || strings.Contains(text, "%!") {
				t.Errorf("step %q: %s", s.Steps[i].Do, text)
			}
		}
	}
}
