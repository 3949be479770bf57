// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodegate/nodegate/internal/agent/checks"
)

// member is a node of the fleet behind HAProxy: an address of its own, with a service and an agent.
type member struct {
	node, address string
	service       net.Listener
	stopService   func()
	agent         *process
}

// fleet starts three nodes that are ready, each with a service that answers with its node's name.
func fleet(t *testing.T, name string, args func(address string) []string) []*member {
	t.Helper()
	kubeconfig := account(t, name, watching)
	var members []*member
	for i := range 3 {
		m := &member{node: fmt.Sprintf("%s-%d", name, i), address: fmt.Sprintf("127.0.0.%d", 11+i)}
		newNode(t, m.node)
		setReady(t, m.node, "True", "KubeletReady")
		m.serve(t)
		// Who ends the agent decides when: by a second signal.
		all := []string{"--drain-time=1h"}
		if args != nil {
			all = append(all, args(m.address)...)
		}
		m.agent = startAgent(t, m.address, m.node, kubeconfig, all...)
		m.agent.is(t, 200, false, "")
		members = append(members, m)
	}
	return members
}

func (m *member) serve(t *testing.T) {
	t.Helper()
	var err error
	if m.service, err = net.Listen("tcp", net.JoinHostPort(m.address, "0")); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, m.node) })}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(m.service)
	}()
	m.stopService = sync.OnceFunc(func() {
		_ = server.Close()
		<-ended
	})
	t.Cleanup(m.stopService)
}

// traffic is what clients get from HAProxy.
type traffic struct {
	mu     sync.Mutex
	served map[string]int // answers by the node that gave them
	failed []string
	begun  []int // requests, by client
}

// clients send requests without a pause between them, but for a moment, until the test ends.
func (b *haproxy) clients(t *testing.T) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(b.dir, "front.sock"))
	}}
	got := &traffic{served: map[string]int{}, begun: make([]int, 3)}
	var all sync.WaitGroup
	for i := range got.begun {
		all.Go(func() {
			for ctx.Err() == nil {
				got.begins(i)
				node, err := ask(&http.Client{Transport: transport})
				got.add(node, err)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
		transport.CloseIdleConnections()
	})
	return got
}

func ask(client *http.Client) (string, error) {
	resp, err := client.Get("http://nodes/")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

func (c *traffic) begins(client int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun[client]++
}

// settle waits until all requests that are under way have been answered.
func (c *traffic) settle(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	before := slices.Clone(c.begun)
	c.mu.Unlock()
	eventually(t, "all clients go on", func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, n := range c.begun {
			if n == before[i] {
				return fmt.Errorf("client %d waits for the answer to request %d", i, n)
			}
		}
		return nil
	})
}

func (c *traffic) add(node string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = append(c.failed, err.Error())
		return
	}
	c.served[node]++
}

func (c *traffic) of(nodes ...*member) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n []int
	for _, m := range nodes {
		n = append(n, c.served[m.node])
	}
	return n
}

// passesBy waits until the others have served a hundred requests more each, and checks that this node has served none.
func (c *traffic) passesBy(t *testing.T, out *member, others ...*member) {
	t.Helper()
	c.settle(t)
	before := c.of(append([]*member{out}, others...)...)
	eventually(t, "the others serve", func() error {
		for i, n := range c.of(others...) {
			if n < before[i+1]+100 {
				return fmt.Errorf("%s: %d more", others[i].node, n-before[i+1])
			}
		}
		return nil
	})
	if n := c.of(out)[0]; n != before[0] {
		t.Errorf("%s was sent %d requests", out.node, n-before[0])
	}
}

// reaches waits until the node serves requests.
func (c *traffic) reaches(t *testing.T, m *member) {
	t.Helper()
	before := c.of(m)[0]
	eventually(t, "it serves", func() error {
		if c.of(m)[0] < before+10 {
			return errors.New("it does not")
		}
		return nil
	})
}

func (c *traffic) noneFailed(t *testing.T, b *haproxy) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failed) > 0 {
		t.Errorf("%d requests have failed, the first: %s", len(c.failed), c.failed[0])
	}
	if err := b.statistics(t).is("BACKEND", want{"econ": "0", "eresp": "0", "wretr": "0", "wredis": "0", "hrsp_5xx": "0"}); err != nil {
		t.Error(err)
	}
}

// outages takes the API server away from all agents, in two ways, and checks that HAProxy takes no server out.
func outages(t *testing.T, b *haproxy, members []*member, checked func(*member) float64) {
	t.Helper()
	before := b.statistics(t)
	for name, outage := range apiOutages(t) {
		outage.begin()
		for _, m := range members {
			eventually(t, name+": the agent notices", func() error {
				if m.agent.metric(t, "node_readiness_agent_api_available") != 0 {
					return errors.New("it has not")
				}
				return nil
			})
			seen := checked(m)
			eventually(t, name+": HAProxy asks", func() error {
				if n := checked(m); n < seen+10 {
					return fmt.Errorf("%v times", n-seen)
				}
				return nil
			})
		}
		now := b.statistics(t)
		for _, m := range members {
			if err := now.is(m.node, want{"status": "UP", "chkfail": before[m.node]["chkfail"], "chkdown": before[m.node]["chkdown"]}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		outage.end()
		for _, m := range members {
			m.agent.is(t, 200, false, "")
		}
	}
}

func TestHAProxyByHTTPChecks(t *testing.T) {
	members := fleet(t, "by-http", nil)
	var servers []string
	for _, m := range members {
		_, port, err := net.SplitHostPort(m.agent.addresses["health"])
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, fmt.Sprintf("server %s %s check port %s", m.node, m.service.Addr(), port))
	}
	b := startHAProxy(t, "option httpchk GET /health", servers)
	for _, m := range members {
		b.becomes(t, m.node, want{"status": "UP", "check_status": "L7OK", "check_code": "200", "check_rise": rise, "check_fall": fall})
	}
	clients := b.clients(t)
	ill, well, ending := members[0], members[1], members[2]
	for _, m := range members {
		clients.reaches(t, m)
	}

	// A node goes NotReady: as many checks fail as HAProxy waits for, and it is out.
	setReady(t, ill.node, "False", "KubeletNotReady")
	b.becomes(t, ill.node, want{"status": "DOWN", "check_status": "L7STS", "check_code": "503", "chkfail": fall, "chkdown": "1"})
	clients.passesBy(t, ill, well, ending)
	setReady(t, ill.node, "True", "KubeletReady")
	b.becomes(t, ill.node, want{"status": "UP", "check_code": "200", "chkdown": "1"})
	clients.reaches(t, ill)

	outages(t, b, members, func(m *member) float64 {
		return m.agent.metric(t, `node_readiness_agent_health_requests_total{code="200"}`)
	})

	// An agent ends: it answers 503 until HAProxy has noticed, and only then the node's services go.
	ending.agent.signal(t, syscall.SIGTERM)
	b.becomes(t, ending.node, want{"status": "DOWN", "check_status": "L7STS", "check_code": "503", "chkfail": fall, "chkdown": "1"})
	ending.agent.hurry(t)
	clients.settle(t)
	ending.stopService()
	clients.passesBy(t, ending, ill, well)
	if err := b.statistics(t).is(well.node, want{"status": "UP", "chkfail": "0", "chkdown": "0"}); err != nil {
		t.Error(err)
	}
	clients.noneFailed(t, b)
}

func TestHAProxyByAgentChecks(t *testing.T) {
	ports := map[string]string{}
	members := fleet(t, "by-agent", func(address string) []string {
		ports[address] = freePort(t)
		return []string{"--agent-check-port", ports[address]}
	})
	var servers []string
	for _, m := range members {
		servers = append(servers, fmt.Sprintf("server %s %s check agent-check agent-addr %s agent-port %s agent-inter 200ms",
			m.node, m.service.Addr(), m.address, ports[m.address]))
	}
	b := startHAProxy(t, "option tcp-check", servers)
	for _, m := range members {
		b.becomes(t, m.node, want{"status": "UP", "agent_status": "L7OK", "agent_health": "1"})
	}
	clients := b.clients(t)
	ill, well, ending := members[0], members[1], members[2]
	for _, m := range members {
		clients.reaches(t, m)
	}

	setReady(t, ill.node, "False", "KubeletNotReady")
	b.becomes(t, ill.node, want{"status": "DOWN (agent)", "agent_status": "L7STS", "last_agt": "via agent : down (node_ready: KubeletNotReady)"})
	clients.passesBy(t, ill, well, ending)
	setReady(t, ill.node, "True", "KubeletReady")
	b.becomes(t, ill.node, want{"status": "UP", "agent_status": "L7OK"})
	clients.reaches(t, ill)

	// What drains a server does not cut its sessions, and "up ready" ends it.
	patch(t, ill.node, `{"metadata":{"annotations":{"`+checks.MaintenanceAnnotation+`":"disk swap"}}}`)
	b.becomes(t, ill.node, want{"status": "DRAIN (agent)"})
	clients.passesBy(t, ill, well, ending)
	patch(t, ill.node, `{"metadata":{"annotations":{"`+checks.MaintenanceAnnotation+`":null}}}`)
	b.becomes(t, ill.node, want{"status": "UP"})
	clients.reaches(t, ill)

	outages(t, b, members, func(m *member) float64 {
		return m.agent.metric(t, `node_readiness_agent_check_results_total{check="node_ready",result="fail_open"}`)
	})

	ending.agent.signal(t, syscall.SIGTERM)
	b.becomes(t, ending.node, want{"status": "DRAIN (agent)"})
	clients.passesBy(t, ending, ill, well)
	ending.agent.hurry(t)
	ending.stopService()
	clients.passesBy(t, ending, ill, well)
	clients.noneFailed(t, b)
}
