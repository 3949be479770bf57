// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"
	"time"
)

// TestForgetsPlausibleHeartbeats: else the memory would grow with each clock that was ahead once.
func TestForgetsPlausibleHeartbeats(t *testing.T) {
	now, a := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC), &Arrivals{}
	if _, ahead := a.at("n", "c", now.Add(time.Hour), now); !ahead || len(a.nodes) != 1 {
		t.Errorf("does not remember a heartbeat in the future: %v", a.nodes)
	}
	if _, ahead := a.at("n", "c", now, now); ahead || len(a.nodes) != 0 {
		t.Errorf("remembers %v, although the heartbeat is plausible again", a.nodes)
	}
}
