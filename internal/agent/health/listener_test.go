// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestOneClientDoesNotKeepOthersOut: the connections of one address beyond its limit are closed, those of others are
// served.
func TestOneClientDoesNotKeepOthersOut(t *testing.T) {
	limited, address := listen(t, NewMetrics(prometheus.NewRegistry()))
	accepted := make(chan net.Conn, 2*maxPerClient)
	go func() {
		for {
			conn, err := limited.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var first net.Conn
	for range maxPerClient {
		dial("127.0.0.9")
		first = <-accepted
	}
	refused := dial("127.0.0.9")
	_ = refused.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := refused.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one more than the limit: %v", err)
	} else if !errors.Is(err, io.EOF) {
		t.Log(err) // a reset
	}
	dial("127.0.0.10")
	<-accepted
	_ = first.Close()
	dial("127.0.0.9")
	<-accepted
}

// served serves so many connections at a time, one of which is kept free as long as there is an idle one. It returns
// how to open one that has sent a request, and how to wait until n of them are idle.
func served(t *testing.T, slots int, h http.Handler) (open func(path string) net.Conn, idle func(n int)) {
	t.Helper()
	limited, address := listen(t, NewMetrics(prometheus.NewRegistry()))
	limited.slots = make(chan struct{}, slots)
	t.Cleanup(func() {
		if n := len(limited.slots); n > 0 {
			t.Errorf("%d slots are still occupied", n)
		}
	})
	serving(t, func(ctx context.Context) error { return Serve(ctx, limited, h, slog.New(slog.DiscardHandler)) })
	open = func(path string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		return conn
	}
	idle = func(want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			limited.mu.Lock()
			n, waiting := len(limited.idle), limited.waiting
			limited.mu.Unlock()
			if n == want && !waiting && len(limited.slots) == want+1 {
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
	open, idle := served(t, 3, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var conns []net.Conn
	for i := range 20 {
		conn := open("/")
		if got := status(conn); got != "HTTP/1.1 200 OK" {
			t.Fatalf("got %q", got)
		}
		idle(min(i+1, 2))
		conns = append(conns, conn)
	}
	if got := status(conns[17]); got != "EOF" && !strings.Contains(got, "reset") {
		t.Errorf("the longest idle one is still there: %q", got)
	}
	for _, conn := range conns[18:] {
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if got := status(conn); got != "HTTP/1.1 200 OK" {
			t.Errorf("one of the last two: %q", got)
		}
	}
}

func TestWhoIsServedIsNotCut(t *testing.T) {
	begun, finish := make(chan struct{}, 3), make(chan struct{})
	open, _ := served(t, 2, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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
