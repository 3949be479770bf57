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
	"testing"
	"time"
)

// serveTest serves the handler on real sockets, and returns the addresses for HTTP and for the agent-check.
func serveTest(t *testing.T, h *Handler) (web, agent string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	listen := func(serve func(*Listener) error) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- serve(NewListener(l, nil, h.Metrics)) }()
		return l.Addr().String()
	}
	web = listen(func(l *Listener) error { return Serve(ctx, l, NewServer(h, slog.New(slog.DiscardHandler))) })
	agent = listen(func(l *Listener) error { return h.ServeAgentCheck(ctx, l) })
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
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

// TestAFirstLineThatDoesNotCome: a request whose first line is not there in time is cut long before one whose headers
// are slow. The agent-check's clients say nothing at all.
func TestAFirstLineThatDoesNotCome(t *testing.T) {
	web, agent := serveTest(t, testHandler())
	lasts := func(request string) time.Duration {
		began := time.Now()
		if got := exchange(t, web, request); got != "" {
			t.Errorf("%q is answered: %q", request, got)
		}
		return time.Since(began)
	}
	for _, request := range []string{"", "GET /heal"} {
		if d := lasts(request); d < firstLineTimeout || d >= readHeaderTimeout {
			t.Errorf("%q: cut after %s", request, d)
		}
	}
	if d := lasts("GET /health HTTP/1.1\r\nHost: x\r\n"); d < readHeaderTimeout {
		t.Errorf("slow headers: cut after %s", d)
	}
	if got := exchange(t, agent, ""); got != "up 100%" {
		t.Errorf("the agent-check: %q", got)
	}
}

func TestTheServerBoundsWhatAClientMayTake(t *testing.T) {
	s := NewServer(nil, slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout == 0 || s.IdleTimeout == 0 ||
		s.MaxHeaderBytes == 0 {
		t.Errorf("something is without a bound: %+v", s)
	}
}
