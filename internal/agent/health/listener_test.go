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

// request is a request of the path /.
const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// served serves so many connections at a time. It returns how to open one that sends something, and how to wait until
// n wait for a request, and another one for a slot, or none does.
func served(
	t *testing.T, slots int, h http.Handler,
) (open func(send string) net.Conn, wait func(n int, another bool)) {
	t.Helper()
	limited, address := listen(t, NewMetrics(prometheus.NewRegistry()))
	limited.slots = make(chan struct{}, slots)
	t.Cleanup(func() {
		if n := len(limited.slots); n > 0 {
			t.Errorf("%d slots are still occupied", n)
		}
	})
	serving(t, func(ctx context.Context) error { return Serve(ctx, limited, h, slog.New(slog.DiscardHandler)) })
	open = func(send string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprint(conn, send)
		return conn
	}
	wait = func(want int, another bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			limited.mu.Lock()
			n, waiting := limited.quiet.Len(), limited.waiting
			limited.mu.Unlock()
			if n == want && waiting == another && (another || len(limited.slots) == want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d wait for a request, and another one for a slot: %t", n, waiting)
			}
		}
	}
	return open, wait
}

func status(conn net.Conn) string {
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

func TestTheLongestIdleMakesRoom(t *testing.T) {
	open, wait := served(t, 3, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var conns []net.Conn
	for i := range 20 {
		conn := open(request)
		if got := status(conn); got != "HTTP/1.1 200 OK" {
			t.Fatalf("got %q", got)
		}
		wait(min(i+1, 3), false)
		conns = append(conns, conn)
	}
	if got := status(conns[16]); got != "EOF" && !strings.Contains(got, "reset") {
		t.Errorf("the longest idle one is still there: %q", got)
	}
	for _, conn := range conns[17:] {
		fmt.Fprint(conn, request)
		if got := status(conn); got != "HTTP/1.1 200 OK" {
			t.Errorf("one of the last three: %q", got)
		}
	}
}

func TestWhoIsServedIsNotCut(t *testing.T) {
	begun, finish := make(chan struct{}, 3), make(chan struct{})
	open, wait := served(t, 2, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if r.URL.Path == "/slow" {
			<-finish
		}
	}))
	slow := strings.Replace(request, "/", "/slow", 1)
	one, two := open(slow), open(slow)
	<-begun
	<-begun
	three := open(request)
	wait(0, true)
	if len(begun) > 0 {
		t.Error("a third one is served")
	}
	close(finish)
	for _, conn := range []net.Conn{one, two, three} {
		if got := status(conn); got != "HTTP/1.1 200 OK" {
			t.Errorf("got %q", got)
		}
	}
}

// TestSilentConnectionsMakeRoom: connections that send no request, or only a part of one, do not make others wait.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	for name, send := range map[string]string{"nothing": "", "a first line": "GET / HTTP/1.1\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, _ := served(t, 8, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			for range 200 {
				open(send)
			}
			began := time.Now()
			if got := status(open(request)); got != "HTTP/1.1 200 OK" {
				t.Errorf("got %q", got)
			}
			if d := time.Since(began); d > 20*time.Second { // if each had its whole time, at least 25 s
				t.Errorf("answered after %s", d)
			}
		})
	}
}
