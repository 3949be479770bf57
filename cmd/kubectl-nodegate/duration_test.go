// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestDurationsTakeDaysAndFractions(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "1.5h": 90 * time.Minute, "2d": 48 * time.Hour, "1.5d": 36 * time.Hour,
		"1d2h": 26 * time.Hour, "1w": 168 * time.Hour, "250ms": 250 * time.Millisecond, ".5m": 30 * time.Second,
	} {
		var got span
		if err := got.Set(in); err != nil || time.Duration(got) != want {
			t.Errorf("%s: got %v, %v; want %v", in, time.Duration(got), err, want)
		}
	}
	for _, in := range []string{"", "-1h", "5", "d", "7x", "1h 30m", "1.2.3h", "1e3s", "110000d", "100000d100000d"} {
		var got span
		if err := got.Set(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, time.Duration(got))
		}
	}
}
