// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/haproxy"
)

// member is a node of the fleet behind HAProxy: an address of its own, with a service and an agent.
type member struct {
	node, address string
	service       net.Listener
	stopService   func()
	agent         *process
	// start starts the agent.
	start func()
}

// fleet starts nodes that are ready, each with a service and an agent. A test ends the agents by a second signal.
func fleet(t *testing.T, name string, n int, serve func(l net.Listener, node string),
	args func(address string) []string) []*member {
	t.Helper()
	kubeconfig := account(t, name, watching)
	var members []*member
	for i := range n {
		m := &member{node: fmt.Sprintf("%s-%d", name, i), address: fmt.Sprintf("127.0.0.%d", 11+i)}
		newNode(t, m.node, "True")
		var err error
		m.service, err = net.Listen("tcp", net.JoinHostPort(m.address, "0"))
		cluster.Must(t, err)
		var serving sync.WaitGroup
		serving.Go(func() { serve(m.service, m.node) })
		m.stopService = func() {
			_ = m.service.Close()
			serving.Wait()
		}
		t.Cleanup(m.stopService)
		m.start = func() {
			m.agent = startAgent(t, m.address, m.node, kubeconfig, append(args(m.address), "--drain-time=1h")...)
			m.agent.Is(t, 200, false, "")
		}
		m.start()
		members = append(members, m)
	}
	return members
}

// answerNames answers each request with the name of the node.
func answerNames(l net.Listener, node string) {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, node) })}
	_ = server.Serve(l)
	_ = server.Close() // the connections
}

// results returns how often the agent has answered about the node's readiness, by the result.
func (m *member) results(t *testing.T, result string) float64 {
	t.Helper()
	return m.agent.Metric(t, `node_readiness_agent_check_results_total{check="node_ready",result="`+result+`"}`)
}

// polled waits until HAProxy has got a result ten times more.
func (m *member) polled(t *testing.T, result string) {
	t.Helper()
	before := m.results(t, result)
	cluster.Eventually(t, "HAProxy polls the agent", func() error {
		if n := m.results(t, result) - before; n < 10 {
			return fmt.Errorf("%v times", n)
		}
		return nil
	})
}

// maintain puts the node into maintenance, or ends that.
func (m *member) maintain(t *testing.T, value string) {
	t.Helper()
	shared(t).PatchNode(m.node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.MaintenanceAnnotation, value))
}

// flaps has the first node go NotReady and become ready again. HAProxy takes its server out, and back in.
func flaps(t *testing.T, b haproxy.Backend, clients *haproxy.Clients, members []*member, down, up haproxy.Fields) {
	t.Helper()
	for _, m := range members {
		clients.Reach(t, m.node)
	}
	first := members[0].node
	setReady(t, first, "False")
	b.Becomes(t, first, down)
	clients.PassBy(t, first, members[1].node, members[2].node)
	setReady(t, first, "True")
	b.Becomes(t, first, up)
	clients.Reach(t, first)
}

// outages takes the API server away from all agents, in two ways, and checks that HAProxy takes no server out.
func outages(t *testing.T, b haproxy.Backend, members []*member) {
	t.Helper()
	before := b.Statistics(t)
	failed := map[string]float64{}
	for _, m := range members {
		failed[m.node] = m.results(t, "failed")
	}
	for name, outage := range apiOutages(t) {
		outage.begin()
		for _, m := range members {
			cluster.Eventually(t, name+": the agent notices", func() error {
				if m.agent.Metric(t, "node_readiness_agent_api_available") != 0 {
					return errors.New("it has not")
				}
				return nil
			})
			m.polled(t, "fail_open")
		}
		now := b.Statistics(t)
		for _, m := range members {
			// On a busy machine, a check of HAProxy may time out. What counts is what the agent has answered.
			if err := now.Is(m.node, haproxy.Fields{"status": "UP", "chkdown": before[m.node]["chkdown"]}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n := m.results(t, "failed") - failed[m.node]; n != 0 {
				t.Errorf("%s: %s has answered %v times that its node is not ready", name, m.node, n)
			}
		}
		outage.end()
		for _, m := range members {
			m.agent.Is(t, 200, false, "")
		}
	}
}

func TestHAProxyByHTTPChecks(t *testing.T) {
	members := fleet(t, "by-http", 3, answerNames, func(string) []string { return nil })
	var servers []string
	for _, m := range members {
		_, port, err := net.SplitHostPort(m.agent.Addresses["health"])
		cluster.Must(t, err)
		servers = append(servers, fmt.Sprintf("server %s %s check port %s", m.node, m.service.Addr(), port))
	}
	h := startHAProxy(t, "option httpchk GET /health", servers)
	b := h.Backend("nodes")
	for _, m := range members {
		b.Becomes(t, m.node, haproxy.Fields{"status": "UP", "check_status": "L7OK", "check_code": "200", "check_rise": rise,
			"check_fall": fall})
	}
	clients := startClients(t, h)
	ill, well, ending := members[0], members[1], members[2]
	down := haproxy.Fields{"status": "DOWN", "check_status": "L7STS", "check_code": "503", "chkdown": "1"}
	flaps(t, b, clients, members, down, haproxy.Fields{"status": "UP", "check_code": "200", "chkdown": "1"})

	// An agent ends: it answers 503 until HAProxy has noticed, and only then the node's services go.
	ending.agent.signal(t, syscall.SIGTERM)
	b.Becomes(t, ending.node, down)
	ending.agent.hurry(t)
	clients.Settle(t)
	ending.stopService()
	clients.PassBy(t, ending.node, ill.node, well.node)
	if err := b.Statistics(t).Is(well.node, haproxy.Fields{"status": "UP", "chkdown": "0"}); err != nil {
		t.Error(err)
	}
	if n := well.results(t, "failed"); n != 0 {
		t.Errorf("%s has answered %v times that its node is not ready", well.node, n)
	}
	noneFailed(t, b, clients)
}

func TestHAProxyByAgentChecks(t *testing.T) {
	ports := map[string]string{}
	members := fleet(t, "by-agent", 3, answerNames, func(address string) []string {
		ports[address] = freePort(t)
		return []string{"--agent-check-port", ports[address]}
	})
	var servers []string
	for _, m := range members {
		servers = append(servers, fmt.Sprintf("server %s %s check agent-check agent-addr %s agent-port %s agent-inter 200ms",
			m.node, m.service.Addr(), m.address, ports[m.address]))
	}
	h := startHAProxy(t, "option tcp-check", servers)
	b := h.Backend("nodes")
	for _, m := range members {
		b.Becomes(t, m.node, haproxy.Fields{"status": "UP", "agent_status": "L7OK", "agent_health": "1"})
	}
	clients := startClients(t, h)
	ill, well, ending := members[0], members[1], members[2]
	flaps(t, b, clients, members,
		haproxy.Fields{"status": "DOWN (agent)", "agent_status": "L7STS",
			"last_agt": "via agent : down (node_ready: KubeletNotReady)"},
		haproxy.Fields{"status": "UP", "agent_status": "L7OK"})

	// A weight of 0 takes new sessions away and does not cut the others; "up 100%" ends it.
	ill.maintain(t, `"disk swap"`)
	b.Becomes(t, ill.node, haproxy.Fields{"status": "UP", "weight": "0"})
	clients.PassBy(t, ill.node, well.node, ending.node)
	ill.maintain(t, "null")
	b.Becomes(t, ill.node, haproxy.Fields{"status": "UP", "weight": "1"})
	clients.Reach(t, ill.node)

	// A weight that is set at runtime is overwritten by the next poll.
	out, err := h.Command(t.Context(), "set server nodes/"+ill.node+" weight 0")
	if err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("setting a weight: %q, %v", out, err)
	}
	b.Becomes(t, ill.node, haproxy.Fields{"status": "UP", "weight": "1"})

	// What people set by hand stays, however often the agent is polled.
	for state, status := range map[string]string{"drain": "DRAIN (agent)", "maint": "MAINT"} {
		_, err := h.Command(t.Context(), "set server nodes/"+ill.node+" state "+state)
		cluster.Must(t, err)
		b.Becomes(t, ill.node, haproxy.Fields{"status": status})
		ill.polled(t, "passed")
		if err := b.Statistics(t).Is(ill.node, haproxy.Fields{"status": status}); err != nil {
			t.Error(err)
		}
		_, err = h.Command(t.Context(), "set server nodes/"+ill.node+" state ready")
		cluster.Must(t, err)
		b.Becomes(t, ill.node, haproxy.Fields{"status": "UP"})
	}

	outages(t, b, members)

	ending.agent.signal(t, syscall.SIGTERM)
	b.Becomes(t, ending.node, haproxy.Fields{"status": "UP", "weight": "0"})
	clients.PassBy(t, ending.node, ill.node, well.node)
	ending.agent.hurry(t)
	ending.stopService()
	clients.PassBy(t, ending.node, ill.node, well.node)
	noneFailed(t, b, clients)
}
