// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestGoMemory(t *testing.T) {
	for limit, want := range map[uint64]uint64{100: 64, 256: 192, 300: 236, 640: 576, 1000: 900} {
		if got := goMemory(limit<<20) >> 20; got != want {
			t.Errorf("of %d MiB, %d are for Go, not %d", limit, got, want)
		}
	}
}
