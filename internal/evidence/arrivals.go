// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"sync"
	"time"
)

// Arrivals remembers when this process first saw a heartbeat that was far in the future. By its own time, such evidence
// would stay fresh until then. It also remembers such times since which pods are ready. A process that starts when that
// future is near does not know. The zero value is empty. It is safe for concurrent use.
type Arrivals struct {
	mu    sync.Mutex
	nodes map[string]map[string]arrival // by name, then by the type of the condition or the pod
}

// maxArrivals is how many times of a node are remembered. With more of them, all are forgotten.
const maxArrivals = 100

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
	case ahead && (of == nil || len(of) == maxArrivals && !ok):
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

// readyPod is a pod that is ready, since a time by the node's clock. The API server's clock says when it was created.
type readyPod struct {
	namespace, name string
	since, created  time.Time
}

// readyFor returns when a pod has been ready for a time. If the node's clock is a little ahead, that is later. If it is
// far ahead, the pod's creation counts, also when that future has come: a pod that counts must not cease to count.
func (f *Facts) readyFor(least time.Duration, p readyPod, now time.Time) time.Time {
	at := p.since.Add(least)
	if !at.After(now) {
		return at
	}
	if least == 0 {
		return p.created
	}
	if _, ahead := f.Arrivals.at(f.Node.Name, "pod/"+p.namespace+"/"+p.name, p.since, now); ahead {
		return p.created.Add(least)
	}
	return at
}

// Forget drops a deleted node.
func (a *Arrivals) Forget(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.nodes, node)
}
