// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The signal is sent at once, but on a machine with more to do than it has processors the process gets it only
// when it is its turn.
func TestPauseReturnsOnceTheProcessHasStopped(t *testing.T) {
	dir := t.TempDir()
	var components []*Component
	for i := range 16 {
		name := fmt.Sprintf("busy-%d", i)
		busy, err := NewProcess(dir, Process{Name: name, Path: "/bin/sh", Args: []string{"-c", "while :; do :; done"}})
		Must(t, err)
		Must(t, busy.Start(t.Context()))
		t.Cleanup(func() { _ = busy.Kill() })
		components = append(components, busy)
	}
	for range 20 {
		for _, c := range components[:4] {
			Must(t, c.Pause())
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID()))
			Must(t, err)
			if fields := strings.Fields(string(stat)); fields[2] != "T" {
				t.Fatalf("a paused process is in state %s", fields[2])
			}
			Must(t, c.Resume())
		}
	}
}

func TestPauseOfAProcessThatDoesNotRunIsAnError(t *testing.T) {
	c, err := NewProcess(t.TempDir(), Process{Name: "true", Path: "/bin/sh", Args: []string{"-c", ":"}})
	Must(t, err)
	if err := c.Pause(); err == nil {
		t.Error("one that was never started was paused")
	}
	Must(t, c.Start(t.Context()))
	<-c.Exited()
	if err := c.Pause(); err == nil {
		t.Error("one that has ended was paused")
	}
}
