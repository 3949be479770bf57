// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"os"
	"testing"
	"time"
)

func TestThisProcess(t *testing.T) {
	m, err := NewMeter(os.Getppid(), os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	var used Usage
	for began := time.Now(); used.Bench < 20*time.Millisecond && time.Since(began) < 30*time.Second; {
		if used, err = m.Usage(); err != nil {
			t.Fatal(err)
		}
	}
	if used.Bench < 20*time.Millisecond || used.Others < 0 {
		t.Errorf("%+v", used)
	}
	if peak, err := Peak(os.Getpid()); err != nil || peak < 1<<20 {
		t.Errorf("%d bytes, %v", peak, err)
	}
	if _, err := CPU(-1); err == nil {
		t.Error("there is no such process")
	}
	if _, err := Peak(-1); err == nil {
		t.Error("there is no such process")
	}
}

func TestTheClockOfAProcessIsFinerThanATick(t *testing.T) {
	last, err := CPU(os.Getpid())
	least := time.Hour
	for began := time.Now(); err == nil && least > time.Millisecond && time.Since(began) < 30*time.Second; {
		var now time.Duration
		if now, err = CPU(os.Getpid()); now > last {
			least, last = min(least, now-last), now
		}
	}
	if err != nil || least > time.Millisecond && errProc == nil {
		t.Errorf("%v at least, %v", least, err)
	}
}
