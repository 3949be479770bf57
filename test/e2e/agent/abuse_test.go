// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

// resident is how much memory a process has, in KiB: now, or with VmHWM the most that it ever had. See
// proc_pid_status(5).
func (p *process) resident(t *testing.T, what string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	cluster.Must(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, what+":"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			cluster.Must(t, err)
			return n
		}
	}
	t.Fatalf("no %s", what)
	return 0
}

// exchange sends raw bytes and returns the first line that comes back; empty where the connection was cut.
func exchange(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	cluster.Must(t, err)
	defer conn.Close() //nolint:errcheck // done with it
	_ = conn.SetDeadline(time.Now().Add(cluster.Limit))
	go func() { _, _ = io.WriteString(conn, request) }()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("neither answered nor cut")
	}
	return strings.TrimSpace(line)
}

func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "check-%d,", i)
	}
	return b.String()
}

// crowd opens connections, sends the beginning of a request on each, and leaves them open until the test ends.
func crowd(t *testing.T, address string, n int, beginning string) {
	t.Helper()
	// They come from several addresses, none of which is the honest client's.
	for i := range n {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%8))}
		conn, err := (&net.Dialer{LocalAddr: from}).Dial("tcp", address)
		cluster.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, beginning) // beyond the limit of one client it is cut
	}
}

// TestBadInput sends malformed requests, again and again: it is answered or cut, and costs no memory that stays.
func TestBadInput(t *testing.T) {
	p := startAgent(t, "127.0.0.1", "x", "/nonexistent", "--agent-check-port", freePort(t))
	web, agentCheck := p.Addresses["health"], p.Addresses["agent-check"]
	get := func(target string) string { return "GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	round := func() {
		for _, c := range []struct{ name, request, want string }{
			{"as many checks as there may be", get("/health?check=" + names(64)), "HTTP/1.1 503 Service Unavailable"},
			{"one check more", get("/health?check=" + names(65)), "HTTP/1.1 400 Bad Request"},
			{"ten thousand checks", get("/health?check=" + names(10000)), "HTTP/1.1 431 Request Header Fields Too Large"},
			{"control characters", get("/health?check=%00%01%1b%5b31m%0d%0aX-Injected:%201%7f"),
				"HTTP/1.1 503 Service Unavailable"},
			{"control characters as such", get("/health?check=\x01\x1b[31m"), "HTTP/1.1 400 Bad Request"},
			{"a query that is no encoding", get("/health?check=%zz"), "HTTP/1.1 400 Bad Request"},
			{"a query of a megabyte", get("/health?" + strings.Repeat("a", 1<<20)),
				"HTTP/1.1 431 Request Header Fields Too Large"},
			{"a header of a megabyte", "GET /health HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n",
				"HTTP/1.1 431 Request Header Fields Too Large"},
			{"a body of a megabyte", "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n" +
				strings.Repeat("a", 1<<20), "HTTP/1.1 200 OK"},
			{"no HTTP", strings.Repeat("\x16\x03\x01", 1000) + "\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		} {
			if got := exchange(t, web, c.request); got != c.want {
				t.Errorf("%s: got %q", c.name, got)
			}
		}
		if got := exchange(t, agentCheck, strings.Repeat("a", 1<<20)); got != "up 100%" && got != "" {
			t.Errorf("agent-check: got %q", got)
		}
	}
	if got := exchange(t, web, "GET /health HTTP/1.1\r\nHost: x\r\n"); got != "" {
		t.Errorf("a header that never ends: got %q", got)
	}
	round()
	before := p.resident(t, "VmRSS")
	for range 10 {
		round()
	}
	after, peak := p.resident(t, "VmRSS"), p.resident(t, "VmHWM")
	t.Logf("memory: %d KiB before, %d after, %d at most", before, after, peak)
	if after > before+16<<10 {
		t.Errorf("memory has grown from %d KiB to %d", before, after)
	}
	if peak > 64<<10 {
		t.Errorf("memory was %d KiB at most", peak)
	}
	if a := p.Health(t, ""); a.Code != 200 {
		t.Errorf("status %d", a.Code)
	}
}

// TestCrowds opens more connections than the agent serves at a time: an honest client gets its answer anyway.
func TestCrowds(t *testing.T) {
	p := startAgent(t, "127.0.0.1", "x", "/nonexistent", "--agent-check-port", freePort(t))
	for _, c := range []struct{ name, server, beginning string }{
		{"half-open requests", "health", "GET /health HTTP/1.1\r\nHost:"},
		{"connections that send nothing", "health", ""},
		{"connections that were answered and stay", "health", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"bodies that never come", "health", "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"},
		{"the agent-check's connections", "agent-check", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			crowd(t, p.Addresses[c.server], 1500, c.beginning)
			began := time.Now()
			if c.server == "health" {
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: cluster.Limit}
				resp, err := client.Get("http://" + p.Addresses["health"] + "/health")
				cluster.Must(t, err)
				_ = resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Errorf("status %d", resp.StatusCode)
				}
			} else if got := exchange(t, p.Addresses["agent-check"], ""); got != "up 100%" {
				t.Errorf("got %q", got)
			}
			took := time.Since(began)
			t.Logf("answered after %s; memory %d KiB at most", took.Round(time.Millisecond), p.resident(t, "VmHWM"))
			if took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
	if peak := p.resident(t, "VmHWM"); peak > 64<<10 {
		t.Errorf("memory was %d KiB at most", peak)
	}
}
