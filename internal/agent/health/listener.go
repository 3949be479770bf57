// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"container/list"
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
	// patience is how long a connection may at least wait for its request to be read before it makes room for another
	// one. In a burst, the agent accepts connections faster than it reads from them.
	patience = 25 * time.Millisecond
)

// Reasons for which a connection is refused, as the metric names them.
const (
	refusedAddress = "address"
	refusedLimit   = "limit"
)

// Listener limits connections. It closes those of addresses outside the allowed networks, and those above the limit of
// one client address, at once. At its own limit, it closes the HTTP connection that has waited longest for a whole
// request, so that silent clients cannot lock out the balancers. If it is answering requests on all, new ones wait.
type Listener struct {
	net.Listener
	allow   []net.IPNet // empty: all
	metrics *Metrics
	// firstLine is how long a connection may take to send the first line of a request; 0: it need not send any.
	firstLine time.Duration

	slots  chan struct{} // a value for each connection
	closed chan struct{}
	close  func()

	mu       sync.Mutex
	clients  map[string]int             // open connections by client address
	waiting  bool                       // Accept waits for a slot, and no connection was closed for it yet
	quiet    list.List                  // HTTP connections that wait for a whole request; the first has waited longest
	elements map[net.Conn]*list.Element // of quiet
}

// NewListener returns a listener that accepts connections from the networks in allow, or from everywhere if it is
// empty.
func NewListener(l net.Listener, allow []net.IPNet, metrics *Metrics) *Listener {
	limited := &Listener{
		Listener: l, allow: allow, metrics: metrics, slots: make(chan struct{}, maxConnections),
		closed: make(chan struct{}), clients: map[string]int{}, elements: map[net.Conn]*list.Element{},
	}
	limited.close = sync.OnceFunc(func() { close(limited.closed) })
	return limited
}

// Accept waits for a connection that is not refused, and then for a free slot.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
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
		if !l.takeSlot() {
			_ = c.Close()
			return nil, net.ErrClosed
		}
		accepted := &conn{Conn: c}
		accepted.leave = sync.OnceFunc(func() { l.leave(accepted, client) })
		if l.firstLine > 0 {
			accepted.limit = time.AfterFunc(l.firstLine, func() { _ = c.Close(); accepted.leave() })
		}
		return accepted, nil
	}
}

// takeSlot waits for a slot. It returns false if the listener was closed.
func (l *Listener) takeSlot() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	l.setWaiting(true)
	defer l.setWaiting(false)
	select {
	case l.slots <- struct{}{}:
		return true
	case <-l.closed:
		return false
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

func (l *Listener) leave(c net.Conn, client net.IP) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notQuiet(c) // closing it once more would make no room
	key := client.String()
	if l.clients[key]--; l.clients[key] <= 0 {
		delete(l.clients, key)
	}
	<-l.slots
}

// connState is the ConnState of the HTTP server.
func (l *Listener) connState(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew, http.StateIdle:
		l.elements[c] = l.quiet.PushBack(quiet{c, time.Now()})
		l.makeRoom()
	case http.StateClosed, http.StateHijacked:
		l.notQuiet(c)
	}
}

// notQuiet records that a connection does not wait for a request any more. The caller holds the lock.
func (l *Listener) notQuiet(c net.Conn) {
	if e := l.elements[c]; e != nil {
		l.quiet.Remove(e)
		delete(l.elements, c)
	}
}

// quiet is a connection that waits for a whole request, and since when.
type quiet struct {
	net.Conn
	since time.Time
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// answering returns a handler that takes the connections of requests off those that wait for one.
func (l *Listener) answering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			l.mu.Lock()
			l.notQuiet(c)
			l.mu.Unlock()
		}
		h.ServeHTTP(w, r)
	})
}

func (l *Listener) setWaiting(waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = waiting
	l.makeRoom()
}

// makeRoom closes the connection that has waited longest for a request if Accept waits for a slot. The caller holds the
// lock.
func (l *Listener) makeRoom() {
	if !l.waiting || l.quiet.Len() == 0 {
		return
	}
	longest := l.quiet.Front().Value.(quiet) //nolint:errcheck,forcetypeassert // there are no others
	if early := patience - time.Since(longest.since); early > 0 {
		time.AfterFunc(early, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.makeRoom()
		})
		return
	}
	l.waiting = false
	l.notQuiet(longest.Conn)
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
