// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package simulation

import (
	"os/exec"
	"testing"
)

// usual is how many stories a run of all tests plays with the race detector, which makes them ten times slower.
const usual = 50

// TestStoriesWithoutRace plays the same stories and many more in a program that is built without the race detector.
func TestStoriesWithoutRace(t *testing.T) {
	stories := exec.CommandContext(t.Context(), "go", "test", ".", "-count=1", "-v", "-run", "^Test(Stories|Starts)$")
	out, err := stories.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
