// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// served serves two connections at a time, one of which is kept free as long as there is an idle one. It returns how to
// open one that has sent a request, and how to wait until one is idle.
func served(t *testing.T, h http.Handler) (open func(path string) net.Conn, idle func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	places := newPlaces(l, 2)
	server := NewServer(h, slog.New(slog.DiscardHandler))
	server.ConnState = places.note
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(places) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if n := len(places.taken); n > 1 { // Accept may hold one
			t.Errorf("%d places are still taken", n)
		}
	})
	open = func(path string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		return conn
	}
	idle = func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			places.mu.Lock()
			n, full := places.idle.Len(), places.full
			places.mu.Unlock()
			if n == 1 && !full && len(places.taken) == 2 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d are idle", n)
			}
		}
	}
	return open, idle
}

func status(conn net.Conn) string {
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

func TestTheLongestIdleMakesRoom(t *testing.T) {
	open, idle := served(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var conns []net.Conn
	for range 20 {
		conn := open("/")
		if got := status(conn); got != "HTTP/1.1 200 OK" {
			t.Fatalf("got %q", got)
		}
		idle()
		conns = append(conns, conn)
	}
	if got := status(conns[0]); got != "EOF" && !strings.Contains(got, "reset") {
		t.Errorf("the first one is still there: %q", got)
	}
	fmt.Fprint(conns[19], "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := status(conns[19]); got != "HTTP/1.1 200 OK" {
		t.Errorf("the last one: %q", got)
	}
}

func TestWhoIsServedIsNotCut(t *testing.T) {
	begun, finish := make(chan struct{}, 3), make(chan struct{})
	open, _ := served(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if r.URL.Path == "/slow" {
			<-finish
		}
	}))
	one, two := open("/slow"), open("/slow")
	<-begun
	<-begun
	three := open("/")
	select {
	case <-begun:
		t.Error("a third one is served")
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
	for _, conn := range []net.Conn{one, two, three} {
		if got := status(conn); got != "HTTP/1.1 200 OK" {
			t.Errorf("got %q", got)
		}
	}
}
