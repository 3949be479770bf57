// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"strconv"
	"strings"
	"time"

	"github.com/nodegate/nodegate/test/simulation/model"
	"github.com/nodegate/nodegate/test/simulation/replica"
)

// setClock sets the clock of a replica's machine, which runs on through restarts of the process.
func (w *World) setClock(r *replica.Replica, by time.Duration) {
	r.Ahead += by
	w.Model.Clock(r.Ahead)
	if w.now.After(start) {
		r.Jumped = w.now
	}
}

// clock is the clock of a node.
func (w *World) clock(n int) time.Time {
	at := w.now.Add(w.ahead[n])
	if n >= 1 && n <= len(w.script.Skew) {
		at = at.Add(time.Duration(w.script.Skew[n-1]) * time.Second)
	}
	return at.UTC().Truncate(time.Second)
}

// skewed reports whether a node's clock is wrong, or was.
func (w *World) skewed(name string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
	_, set := w.ahead[n]
	return err == nil && n >= 1 && (set || n <= len(w.script.Skew) && w.script.Skew[n-1] != 0)
}

// clocks are the clocks of the replicas that run, which may be those that decide.
func (w *World) clocks() []time.Time {
	var out []time.Time
	for _, r := range w.replicas {
		if r.Up && r.Ahead != 0 {
			out = append(out, r.Now())
		}
	}
	return out
}

// by is the present state by the clock of a replica.
func (w *World) by(r *replica.Replica) *model.View {
	v := w.present()
	v.Now, v.Ahead, v.Jumped, v.Leader, v.Started = r.Now(), r.Ahead, r.Jumped, r.Process(), r.Started()
	v.Unread = r.CouldNotRead()
	return v
}
