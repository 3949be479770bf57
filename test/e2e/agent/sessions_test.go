// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/haproxy"
)

// TestIdleSessions holds the example of HAProxy to what it says: an idle TCP session lives through maintenance of its
// node and through an update of the node's agent, and is cut when the node is gone.
func TestIdleSessions(t *testing.T) {
	for _, c := range []struct {
		backend string
		// faster replaces the example's times. The product of inter and fall stays long enough to start an agent here.
		faster []string
		// drained, missed and dead are HAProxy's statistics of a node that drains, whose agent is missing, and that is gone.
		drained, missed, dead haproxy.Fields
	}{
		{
			backend: "nodes-by-health", faster: []string{"inter 3s fall 10", "inter 200ms fall 100"},
			drained: haproxy.Fields{"status": "NOLB", "check_status": "L7OKC", "check_code": "404"},
			missed:  haproxy.Fields{"check_status": "L4CON", "chkdown": "0"},
			dead:    haproxy.Fields{"status": "DOWN", "check_status": "L4CON", "chkdown": "1"},
		},
		{
			backend: "nodes-by-agent-check", faster: []string{"inter 5s fall 3", "inter 200ms fall 3", "agent-inter 5s",
				"agent-inter 200ms"},
			drained: haproxy.Fields{"status": "UP", "weight": "0"},
			missed:  haproxy.Fields{"agent_status": "L4CON", "chkdown": "0"},
			dead:    haproxy.Fields{"status": "DOWN", "check_status": "L4CON", "chkdown": "1"},
		},
	} {
		t.Run(c.backend, func(t *testing.T) {
			web, agentCheck := freePort(t), freePort(t)
			nodes := fleet(t, c.backend, 2, repeat, func(string) []string {
				return []string{"--listen-port", web, "--agent-check-port", agentCheck, "--drain-status=404"}
			})
			one, two := nodes[0], nodes[1]
			h := haproxy.Start(t, clusters.Get(t), example(t, append([]string{
				"bind :443", "bind unix@" + front, "default_backend nodes-by-agent-check", "default_backend " + c.backend,
				"192.0.2.11:443", one.service.Addr().String(), "192.0.2.12:443", two.service.Addr().String(),
				"    server node-3 192.0.2.13:443\n", "", "port 25001", "port " + web, "agent-port 25002",
				"agent-port " + agentCheck,
				"timeout client 1m", "timeout client 1h", "timeout server 1m", "timeout server 1h"}, c.faster...)))
			b := h.Backend(c.backend)
			in := haproxy.Fields{"status": "UP", "weight": "1", "chkdown": "0"}
			b.Becomes(t, "node-1", in)
			b.Becomes(t, "node-2", in)
			idle := sessionOn(t, h, one.node)

			one.maintain(t, `"disk swap"`)
			b.Becomes(t, "node-1", c.drained)
			idle.lives(t, "maintenance")
			newSessions(t, h, two.node)
			one.maintain(t, "null")
			b.Becomes(t, "node-1", in)

			one.agent.signal(t, syscall.SIGTERM)
			b.Becomes(t, "node-1", c.drained)
			newSessions(t, h, two.node)
			one.agent.hurry(t)
			b.Becomes(t, "node-1", c.missed)
			one.start()
			b.Becomes(t, "node-1", in)
			idle.lives(t, "an update of the agent")

			began := time.Now()
			cluster.Must(t, one.agent.cmd.Process.Kill())
			<-one.agent.exited
			_ = one.service.Close()
			b.Becomes(t, "node-1", c.dead)
			idle.ends(t)
			t.Logf("cut %s after the node was gone", time.Since(began).Round(100*time.Millisecond))
		})
	}
}

// example is examples/haproxy/haproxy.cfg with replacements.
func example(t *testing.T, replace []string) string {
	t.Helper()
	text, err := os.ReadFile("../../../examples/haproxy/haproxy.cfg")
	cluster.Must(t, err)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("the example does not contain %q", replace[i])
		}
	}
	return strings.NewReplacer(replace...).Replace(string(text))
}

// repeat says its node's name to each client, and then repeats what the client says. The connections outlive the
// service, as those of a dead node do.
func repeat(l net.Listener, node string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close() //nolint:errcheck // HAProxy has ended the session
			fmt.Fprintln(conn, node)
			_, _ = io.Copy(conn, conn)
		}()
	}
}

// session is a client's TCP session through HAProxy.
type session struct {
	net.Conn
	node  string
	lines *bufio.Reader
}

func openSession(t *testing.T, h *haproxy.HAProxy) *session {
	t.Helper()
	conn, err := net.Dial("unix", h.Path(front))
	cluster.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s := &session{Conn: conn, lines: bufio.NewReader(conn)}
	_ = conn.SetDeadline(time.Now().Add(cluster.Limit))
	node, err := s.lines.ReadString('\n')
	cluster.Must(t, err)
	s.node = strings.TrimSpace(node)
	return s
}

// sessionOn opens sessions until one is with this node.
func sessionOn(t *testing.T, h *haproxy.HAProxy, node string) *session {
	t.Helper()
	var s *session
	cluster.Eventually(t, "a session with "+node, func() error {
		if s = openSession(t, h); s.node != node {
			return errors.New("it is with " + s.node)
		}
		return nil
	})
	return s
}

// newSessions opens some and checks that all are with this node.
func newSessions(t *testing.T, h *haproxy.HAProxy, node string) {
	t.Helper()
	for range 10 {
		s := openSession(t, h)
		if s.node != node {
			t.Errorf("a new session is with %s", s.node)
		}
		_ = s.Close()
	}
}

func (s *session) lives(t *testing.T, through string) {
	t.Helper()
	_ = s.SetDeadline(time.Now().Add(cluster.Limit))
	fmt.Fprintln(s, through)
	if got, err := s.lines.ReadString('\n'); err != nil || strings.TrimSpace(got) != through {
		t.Fatalf("the session has not lived through %s: %q, %v", through, got, err)
	}
}

func (s *session) ends(t *testing.T) {
	t.Helper()
	_ = s.SetDeadline(time.Now().Add(cluster.Limit))
	if got, err := s.lines.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the session still lives: %q, %v", got, err)
	}
}
