// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"sync"
	"time"
)

// Arrivals remembers when this process first saw a heartbeat that was far in the future. By its own time, such evidence
// would stay fresh until then. The zero value is empty. It is safe for concurrent use.
type Arrivals struct {
	mu    sync.Mutex
	nodes map[string]map[string]arrival // by name, then by the type of the condition
}

type arrival struct{ heartbeat, seen time.Time }

// at reports whether a heartbeat is, or was when it was first seen, far in the future, and when that was. It is
// remembered when that future has come, since the evidence would be fresh again. With nil, nothing is remembered, and
// the heartbeat counts by its own time.
func (a *Arrivals) at(node, conditionType string, heartbeat, now time.Time) (seen time.Time, ahead bool) {
	ahead = heartbeat.After(now.Add(MaxClockSkew))
	if a == nil {
		return heartbeat, ahead
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.nodes[node]
	switch known, ok := of[conditionType]; {
	case ok && known.heartbeat.Equal(heartbeat) && !known.seen.After(now):
		return known.seen, true
	case ahead && of == nil:
		if a.nodes == nil {
			a.nodes = map[string]map[string]arrival{}
		}
		of = map[string]arrival{}
		a.nodes[node] = of
		fallthrough
	case ahead:
		of[conditionType] = arrival{heartbeat, now}
	case ok:
		if delete(of, conditionType); len(of) == 0 {
			delete(a.nodes, node)
		}
	}
	return now, ahead
}

// Forget drops a deleted node.
func (a *Arrivals) Forget(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.nodes, node)
}
