// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestOneClientDoesNotKeepOthersOut: the connections of one address beyond its limit are closed, those of others are
// served.
func TestOneClientDoesNotKeepOthersOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := LimitClients(l, nil, nil)
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
	defer l.Close() //nolint:errcheck // done with it
	dial := func(from string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.Dial("tcp", l.Addr().String())
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

// TestOnlyTheBalancersMayAsk: with allowed networks, HTTP and the agent-check close the connections of all others.
func TestOnlyTheBalancersMayAsk(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	_, balancers, err := net.ParseCIDR("127.0.0.8/31")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, want string }{{"127.0.0.7", ""}, {"127.0.0.8", "answered"},
		{"127.0.0.9", "answered"}, {"127.0.0.10", ""}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		limited := LimitClients(l, []net.IPNet{*balancers}, metrics)
		go func() {
			if conn, err := limited.Accept(); err == nil {
				_, _ = io.WriteString(conn, "answered")
				_ = conn.Close()
			}
		}()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}).Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if got, _ := io.ReadAll(conn); string(got) != c.want {
			t.Errorf("%s: got %q", c.from, got)
		}
		_ = l.Close()
	}
	if n := testutil.ToFloat64(metrics.closed.WithLabelValues(refusedAddress)); n != 2 {
		t.Errorf("%v refusals are counted", n)
	}
}
