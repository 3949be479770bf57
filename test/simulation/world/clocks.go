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

// by is the present state, as the leader should know it.
func (w *World) by(r *replica.Replica) *model.View {
	v := w.present()
	v.Leader, v.Started = r.Process(), r.Started()
	v.Unread = r.CouldNotRead()
	return v
}
