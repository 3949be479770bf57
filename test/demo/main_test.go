// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestParseWait(t *testing.T) {
	for text, want := range map[string]time.Duration{"": forever, " ": forever, "0": 0, "5": 5 * time.Second} {
		if got, err := parseWait(text); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "-1", "1s"} {
		if _, err := parseWait(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
