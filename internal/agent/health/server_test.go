// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodegate/nodegate/internal/agent/checks"
)

// listen returns a listener on a free port, which metrics count, and its address.
func listen(t *testing.T, metrics *Metrics) (l *Listener, address string) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	return NewListener(plain, nil, metrics), plain.Addr().String()
}

// serving serves on a listener until the test ends.
func serving(t *testing.T, serve func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// serveTest serves the handler on real sockets, and returns the addresses for HTTP and for the agent-check.
func serveTest(t *testing.T, h *Handler) (web, agent string) {
	t.Helper()
	byHTTP, web := listen(t, h.Metrics)
	serving(t, func(ctx context.Context) error { return Serve(ctx, byHTTP, h, slog.New(slog.DiscardHandler)) })
	byLine, agent := listen(t, h.Metrics)
	serving(t, func(ctx context.Context) error { return h.ServeAgentCheck(ctx, byLine) })
	return web, agent
}

// exchange sends raw bytes and returns the first line that comes back; empty where the connection was cut.
func exchange(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // done with it
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = io.WriteString(conn, request) }()
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line)
}

func TestRawRequests(t *testing.T) {
	web, _ := serveTest(t, testHandler())
	for _, c := range []struct{ name, request, want string }{
		{"HAProxy's bare option httpchk", "OPTIONS / HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK"},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK"},
		{"HTTP/1.0 without a host", "GET /health HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK"},
		{"a body is not waited for", "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", "HTTP/1.1 200 OK"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := exchange(t, web, c.request); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestAClientThatClosesItsHalfGetsTheAnswer: it has said all that it had to say, as nc -N does, and waits.
func TestAClientThatClosesItsHalfGetsTheAnswer(t *testing.T) {
	web, _ := serveTest(t, testHandler(checks.Check{Name: "slow", Run: func(context.Context) checks.Result {
		time.Sleep(100 * time.Millisecond)
		return checks.Pass()
	}}))
	conn, err := net.Dial("tcp", web)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // done with it
	if _, err := io.WriteString(conn, "GET /health?check=slow HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if half, ok := conn.(*net.TCPConn); !ok || half.CloseWrite() != nil {
		t.Fatal("half of the connection is not closed")
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "HTTP/1.0 200 OK\r\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// pipes is a listener for connections in memory, which have virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestAFirstLineThatDoesNotCome: a request whose first line is not there in time is cut long before one whose headers
// are slow. The agent-check's clients say nothing at all.
func TestAFirstLineThatDoesNotCome(t *testing.T) {
	h := testHandler()
	serve := func(ctx context.Context, l *Listener) error {
		return Serve(ctx, l, h, slog.New(slog.DiscardHandler))
	}
	for name, c := range map[string]struct {
		serve         func(context.Context, *Listener) error
		request, want string
		after         time.Duration
	}{
		"nothing":              {serve, "", "", firstLineTimeout},
		"half of a first line": {serve, "GET /heal", "", firstLineTimeout},
		"slow headers":         {serve, "GET /health HTTP/1.1\r\nHost: x\r\n", "", readHeaderTimeout},
		"the agent-check":      {h.ServeAgentCheck, "", "up 100%\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
				p.close = sync.OnceFunc(func() { close(p.closed) })
				l := NewListener(p, nil, h.Metrics)
				serving(t, func(ctx context.Context) error { return c.serve(ctx, l) })
				client, server := net.Pipe()
				defer client.Close() //nolint:errcheck // done with it
				p.conns <- server
				began := time.Now()
				go func() { _, _ = io.WriteString(client, c.request) }()
				got, _ := bufio.NewReader(client).ReadString('\n')
				if d := time.Since(began); d != c.after || got != c.want {
					t.Errorf("%q after %s", got, d)
				}
			})
		})
	}
}

func TestTheServerBoundsWhatAClientMayTake(t *testing.T) {
	s := newServer(nil, slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 ||
		s.MaxHeaderBytes == 0 {
		t.Errorf("something is without a bound: %+v", s)
	}
}
