// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
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

func TestForgetsADeletedNode(t *testing.T) {
	now, a := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC), &Arrivals{}
	a.at("n", "c", now.Add(time.Hour), now)
	a.Forget("n")
	if _, ahead := a.at("n", "c", now.Add(time.Hour), now.Add(time.Hour)); ahead {
		t.Error("remembers a heartbeat of a former node of that name")
	}
}

// TestForgetsAllOfANodeWithTooMany: the pods of a node whose clock is ahead may come and go.
func TestForgetsAllOfANodeWithTooMany(t *testing.T) {
	a, now := Arrivals{}, time.Unix(1e9, 0)
	for i := range 3 * maxArrivals {
		a.at("n", fmt.Sprint(i), now.Add(time.Hour), now)
		if n := len(a.nodes["n"]); n > maxArrivals {
			t.Fatalf("remembers %d times", n)
		}
	}
	if _, ahead := a.at("n", fmt.Sprint(3*maxArrivals-1), now.Add(time.Hour), now.Add(2*time.Hour)); !ahead {
		t.Error("has forgotten the last one")
	}
	if n := len(a.nodes["n"]); n != maxArrivals {
		t.Fatalf("remembers %d times, not the most", n)
	}
	a.at("n", fmt.Sprint(3*maxArrivals-1), now.Add(3*time.Hour), now.Add(2*time.Hour))
	if _, ahead := a.at("n", fmt.Sprint(3*maxArrivals-2), now.Add(time.Hour), now.Add(2*time.Hour)); !ahead {
		t.Error("has forgotten the others at the next report of one that it knows")
	}
}
