// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// connections limits the open connections of a server.
type connections struct {
	most int

	mu      sync.Mutex
	open    int
	waiting map[net.Conn]time.Time // connections without a request, since when
}

// LimitConnections limits the open connections of a server. For each new one above the limit, the server closes the one
// that has waited longest for a request, so that idle clients cannot lock out others. These connect again.
func LimitConnections(server *http.Server, most int) {
	server.ConnState = (&connections{most: most, waiting: map[net.Conn]time.Time{}}).track
}

// track is the ConnState of the server.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, conn)
	switch state {
	case http.StateNew:
		c.open++
		c.waiting[conn] = time.Now()
		if c.open > c.most {
			c.closeLongest()
		}
	case http.StateIdle:
		c.waiting[conn] = time.Now()
	case http.StateClosed:
		c.open--
	}
}

// closeLongest closes the new connection itself if all others have a request. The caller holds the lock.
func (c *connections) closeLongest() {
	earlier := func(a, b net.Conn) int { return c.waiting[a].Compare(c.waiting[b]) }
	longest := slices.MinFunc(slices.Collect(maps.Keys(c.waiting)), earlier)
	delete(c.waiting, longest)
	go func() { _ = longest.Close() }() // the server then tracks it, and this takes the lock
}
