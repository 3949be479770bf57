// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"net"
	"slices"
	"sync"
)

// maxPerClient is how many connections one client address may have open. Further ones are closed at once: one client
// must not keep the balancers out.
const maxPerClient = 64

// Reasons for which a connection is refused, as the metric names them.
const (
	refusedAddress = "address"
	refusedLimit   = "limit"
)

// clients is a listener that closes the connections of clients that may not ask, and those of a client that has too
// many open already.
type clients struct {
	net.Listener
	allow   []net.IPNet // empty: everyone
	metrics *Metrics

	mu   sync.Mutex
	open map[string]int // by client address
}

// LimitClients bounds the connections of each client address. Only clients in allow may connect; if it is empty,
// everyone may. metrics may be nil.
func LimitClients(l net.Listener, allow []net.IPNet, metrics *Metrics) net.Listener {
	return &clients{Listener: l, allow: allow, metrics: metrics, open: map[string]int{}}
}

// Accept waits for a connection of a client that may have one more.
func (c *clients) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var client net.IP
		if address, ok := conn.RemoteAddr().(*net.TCPAddr); ok { // there are no others
			client = address.IP
		}
		if refused := c.enter(client); refused != "" {
			c.metrics.refused(refused)
			_ = conn.Close()
			continue
		}
		return &seated{Conn: conn, leave: sync.OnceFunc(func() { c.leave(client) })}, nil
	}
}

// enter counts one more connection of the client, or says why it is refused.
func (c *clients) enter(client net.IP) string {
	holds := func(n net.IPNet) bool { return n.Contains(client) }
	if len(c.allow) > 0 && !slices.ContainsFunc(c.allow, holds) {
		return refusedAddress
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[client.String()] >= maxPerClient {
		return refusedLimit
	}
	c.open[client.String()]++
	return ""
}

func (c *clients) leave(client net.IP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.String()
	if c.open[key]--; c.open[key] <= 0 {
		delete(c.open, key)
	}
}
