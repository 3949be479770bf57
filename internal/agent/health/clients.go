// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"net"
	"sync"
)

// maxPerClient is how many connections one client address may have open. More are closed at once: one client must not
// keep the balancers out.
const maxPerClient = 64

// byClient is a listener that bounds the connections of each client address.
type byClient struct {
	net.Listener

	mu   sync.Mutex
	open map[string]int // by client address
}

func limitByClient(l net.Listener) *byClient { return &byClient{Listener: l, open: map[string]int{}} }

// Accept waits for a connection of a client that may have one more.
func (b *byClient) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client, _, err := net.SplitHostPort(conn.RemoteAddr().String())
		if err == nil && !b.enter(client) {
			_ = conn.Close()
			continue
		}
		return &seated{Conn: conn, leave: sync.OnceFunc(func() { b.leave(client) })}, nil
	}
}

func (b *byClient) enter(client string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[client] >= maxPerClient {
		return false
	}
	b.open[client]++
	return true
}

func (b *byClient) leave(client string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[client]--; b.open[client] <= 0 {
		delete(b.open, client)
	}
}
