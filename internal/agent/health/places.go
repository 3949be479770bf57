// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// places is a listener with room for so many connections at a time. When it is full, the connection that has been idle
// longest makes room: clients that only stay must not keep a balancer out. Without an idle one, newcomers wait. A
// connection that does not send the first line of a request in time is closed.
type places struct {
	net.Listener
	taken  chan struct{} // a value for each connection
	closed chan struct{}
	close  func()

	mu   sync.Mutex
	full bool       // Accept waits for a place, and none was made yet
	idle *list.List // of net.Conn, the longest idle first
	of   map[net.Conn]*list.Element
}

func newPlaces(l net.Listener, n int) *places {
	p := &places{
		Listener: l, taken: make(chan struct{}, n), closed: make(chan struct{}), idle: list.New(),
		of: map[net.Conn]*list.Element{},
	}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// Accept waits for a place, and then for a connection.
func (p *places) Accept() (net.Conn, error) {
	select {
	case p.taken <- struct{}{}:
	default:
		p.setFull(true)
		select {
		case p.taken <- struct{}{}:
		case <-p.closed:
			return nil, net.ErrClosed
		}
		p.setFull(false)
	}
	conn, err := p.Listener.Accept()
	if err != nil {
		<-p.taken
		return nil, err
	}
	leave := sync.OnceFunc(func() { <-p.taken })
	limit := time.AfterFunc(firstLineTimeout, func() {
		_ = conn.Close()
		leave()
	})
	return &seated{Conn: conn, leave: leave, limit: limit}, nil
}

// Close ends Accept as well where it waits for a place.
func (p *places) Close() error {
	p.close()
	return p.Listener.Close()
}

// note is the server's ConnState.
func (p *places) note(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.of[conn]; e != nil {
		p.idle.Remove(e)
		delete(p.of, conn)
	}
	if state != http.StateIdle {
		return
	}
	p.of[conn] = p.idle.PushBack(conn)
	p.makeRoom()
}

func (p *places) setFull(full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full = full
	p.makeRoom()
}

// makeRoom closes the connection that has been idle longest, if a place is needed. The server then finds out by itself.
// It is called with the lock held.
func (p *places) makeRoom() {
	e := p.idle.Front()
	if e == nil || !p.full {
		return
	}
	if conn, ok := p.idle.Remove(e).(net.Conn); ok {
		p.full = false
		delete(p.of, conn)
		_ = conn.Close()
	}
}

// seated is a connection that has a place until it is closed.
type seated struct {
	net.Conn
	leave func()
	limit *time.Timer // closes it unless it sends a first line; nil: it may stay silent
}

// Read also notes that the first line has come.
func (s *seated) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.limit != nil && bytes.IndexByte(b[:n], '\n') >= 0 {
		s.limit.Stop()
	}
	return n, err
}

// Close gives the place back.
func (s *seated) Close() error {
	defer s.leave()
	if s.limit != nil {
		s.limit.Stop()
	}
	return s.Conn.Close()
}
