// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// maxConnections is how many connections a listener has open at most.
	maxConnections = 256
	// maxPerClient is how many of them one client address may have, so that one client cannot lock out the balancers.
	maxPerClient = 64
)

// Reasons for which a connection is refused, as the metric names them.
const (
	refusedAddress = "address"
	refusedLimit   = "limit"
)

// Listener limits connections. It closes those of addresses outside the allowed networks, and those above the limit of
// one client address, at once. At its own limit, it closes the HTTP connection that has been idle longest, so that idle
// clients cannot lock out the balancers. If none is idle, new connections wait.
type Listener struct {
	net.Listener
	allow   []net.IPNet // empty: all
	metrics *Metrics
	// firstLine is how long a connection may take to send the first line of a request; 0: it need not send any.
	firstLine time.Duration

	slots  chan struct{} // a value for each connection
	closed chan struct{}
	close  func()

	mu      sync.Mutex
	clients map[string]int // open connections by client address
	waiting bool           // Accept waits for a slot, and no connection was closed for it yet
	idle    map[net.Conn]time.Time
}

// NewListener returns a listener that accepts connections from the networks in allow, or from everywhere if it is
// empty.
func NewListener(l net.Listener, allow []net.IPNet, metrics *Metrics) *Listener {
	limited := &Listener{
		Listener: l, allow: allow, metrics: metrics, slots: make(chan struct{}, maxConnections),
		closed: make(chan struct{}), clients: map[string]int{}, idle: map[net.Conn]time.Time{},
	}
	limited.close = sync.OnceFunc(func() { close(limited.closed) })
	return limited
}

// Accept waits for a free slot, and then for a connection that is not refused.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	default:
		l.setWaiting(true)
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
		l.setWaiting(false)
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		var client net.IP
		if address, ok := c.RemoteAddr().(*net.TCPAddr); ok { // there are no others
			client = address.IP
		}
		if refused := l.enter(client); refused != "" {
			l.metrics.closed.WithLabelValues(refused).Inc()
			_ = c.Close()
			continue
		}
		accepted := &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(client) })}
		if l.firstLine > 0 {
			accepted.limit = time.AfterFunc(l.firstLine, func() { _ = c.Close(); accepted.leave() })
		}
		return accepted, nil
	}
}

// Close also ends an Accept that waits for a slot.
func (l *Listener) Close() error {
	l.close()
	return l.Listener.Close()
}

// enter counts one more connection of the client, or returns why it is refused.
func (l *Listener) enter(client net.IP) string {
	contains := func(n net.IPNet) bool { return n.Contains(client) }
	if len(l.allow) > 0 && !slices.ContainsFunc(l.allow, contains) {
		return refusedAddress
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[client.String()] >= maxPerClient {
		return refusedLimit
	}
	l.clients[client.String()]++
	return ""
}

func (l *Listener) leave(client net.IP) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.String()
	if l.clients[key]--; l.clients[key] <= 0 {
		delete(l.clients, key)
	}
	<-l.slots
}

// connState is the ConnState of the HTTP server: it tracks which connections are idle.
func (l *Listener) connState(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.idle, c)
	if state == http.StateIdle {
		l.idle[c] = time.Now()
		l.closeIdle()
	}
}

func (l *Listener) setWaiting(waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = waiting
	l.closeIdle()
}

// closeIdle closes the connection that has been idle longest if Accept waits for a slot. The caller holds the lock.
func (l *Listener) closeIdle() {
	if !l.waiting || len(l.idle) == 0 {
		return
	}
	earlier := func(a, b net.Conn) int { return l.idle[a].Compare(l.idle[b]) }
	longest := slices.MinFunc(slices.Collect(maps.Keys(l.idle)), earlier)
	l.waiting = false
	delete(l.idle, longest)
	go func() { _ = longest.Close() }() // it takes the lock
}

// conn is a connection that occupies a slot until it is closed.
type conn struct {
	net.Conn
	leave func()
	limit *time.Timer // closes the connection unless a first line arrives; nil: no limit
}

// Read stops the limit when the first line has arrived.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.limit != nil && bytes.IndexByte(b[:n], '\n') >= 0 {
		c.limit.Stop()
	}
	return n, err
}

// Close releases the slot.
func (c *conn) Close() error {
	defer c.leave()
	if c.limit != nil {
		c.limit.Stop()
	}
	return c.Conn.Close()
}
