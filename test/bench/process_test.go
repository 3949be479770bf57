// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestParseProcessCPU(t *testing.T) {
	// A name may hold blanks and parentheses.
	const stat = "4242 (a (b) c) S 1 4242 4242 0 -1 4194560 100 0 0 0 123 45 6 7 20 0 9 0 100 1000 200 18446744073709551615\n"
	got, err := parseProcessCPU(stat)
	if err != nil {
		t.Fatal(err)
	}
	if want := 1680 * time.Millisecond; got != want {
		t.Errorf("got %s, want %s: user and system, without the children's", got, want)
	}
	if _, err := parseProcessCPU("1 (x) S 1"); err == nil {
		t.Error("accepted a short line")
	}
}

func TestParseMachineCPU(t *testing.T) {
	got, err := parseMachineCPU("cpu  100 10 50 9999 777 3 2 500 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := 1650 * time.Millisecond; got != want {
		t.Errorf("got %s, want %s: neither idle nor waiting nor stolen", got, want)
	}
	if _, err := parseMachineCPU("intr 1 2 3 4 5 6 7 8"); err == nil {
		t.Error("accepted another line")
	}
}

func TestParsePeak(t *testing.T) {
	got, err := parsePeak("Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t   2048 kB\nVmRSS:\t 1 kB\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(2 << 20); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if _, err := parsePeak("VmRSS: 1 kB\n"); err == nil {
		t.Error("accepted a status without it")
	}
}
