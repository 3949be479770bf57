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
		m.agent.Is(t, 200, false, "")
		members = append(members, m)
	}
	return members
}

// failed returns how often the agent has answered that the node is not ready.
func (m *member) failed(t *testing.T) float64 {
	t.Helper()
	return m.agent.Metric(t, `node_readiness_agent_check_results_total{check="node_ready",result="failed"}`)
}

func (m *member) serve(t *testing.T) {
	t.Helper()
	var err error
	if m.service, err = net.Listen("tcp", net.JoinHostPort(m.address, "0")); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, m.node)
	})}
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

// outages takes the API server away from all agents, in two ways, and checks that HAProxy takes no server out.
func outages(t *testing.T, b haproxy.Backend, members []*member) {
	t.Helper()
	checked := func(m *member) float64 {
		return m.agent.Metric(t, `node_readiness_agent_check_results_total{check="node_ready",result="fail_open"}`)
	}
	before := b.Statistics(t)
	failed := map[string]float64{}
	for _, m := range members {
		failed[m.node] = m.failed(t)
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
			seen := checked(m)
			cluster.Eventually(t, name+": HAProxy asks", func() error {
				if n := checked(m); n < seen+10 {
					return fmt.Errorf("%v times", n-seen)
				}
				return nil
			})
		}
		now := b.Statistics(t)
		for _, m := range members {
			// On a busy machine, a check of HAProxy may time out. What counts is what the agent has answered.
			if err := now.Is(m.node, haproxy.Fields{"status": "UP", "chkdown": before[m.node]["chkdown"]}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n := m.failed(t) - failed[m.node]; n != 0 {
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
	members := fleet(t, "by-http", nil)
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
	for _, m := range members {
		clients.Reach(t, m.node)
	}

	// A node goes NotReady: HAProxy takes it out.
	setReady(t, ill.node, "False", "KubeletNotReady")
	b.Becomes(t, ill.node, haproxy.Fields{"status": "DOWN", "check_status": "L7STS", "check_code": "503",
		"chkdown": "1"})
	clients.PassBy(t, ill.node, well.node, ending.node)
	setReady(t, ill.node, "True", "KubeletReady")
	b.Becomes(t, ill.node, haproxy.Fields{"status": "UP", "check_code": "200", "chkdown": "1"})
	clients.Reach(t, ill.node)

	// An agent ends: it answers 503 until HAProxy has noticed, and only then the node's services go.
	ending.agent.signal(t, syscall.SIGTERM)
	b.Becomes(t, ending.node, haproxy.Fields{"status": "DOWN", "check_status": "L7STS", "check_code": "503",
		"chkdown": "1"})
	ending.agent.hurry(t)
	clients.Settle(t)
	ending.stopService()
	clients.PassBy(t, ending.node, ill.node, well.node)
	if err := b.Statistics(t).Is(well.node, haproxy.Fields{"status": "UP", "chkdown": "0"}); err != nil {
		t.Error(err)
	}
	if n := well.failed(t); n != 0 {
		t.Errorf("%s has answered %v times that its node is not ready", well.node, n)
	}
	noneFailed(t, b, clients)
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
	h := startHAProxy(t, "option tcp-check", servers)
	b := h.Backend("nodes")
	for _, m := range members {
		b.Becomes(t, m.node, haproxy.Fields{"status": "UP", "agent_status": "L7OK", "agent_health": "1"})
	}
	clients := startClients(t, h)
	ill, well, ending := members[0], members[1], members[2]
	for _, m := range members {
		clients.Reach(t, m.node)
	}

	setReady(t, ill.node, "False", "KubeletNotReady")
	b.Becomes(t, ill.node, haproxy.Fields{"status": "DOWN (agent)", "agent_status": "L7STS",
		"last_agt": "via agent : down (node_ready: KubeletNotReady)"})
	clients.PassBy(t, ill.node, well.node, ending.node)
	setReady(t, ill.node, "True", "KubeletReady")
	b.Becomes(t, ill.node, haproxy.Fields{"status": "UP", "agent_status": "L7OK"})
	clients.Reach(t, ill.node)

	// A weight of 0 takes new sessions away and does not cut the others; "up 100%" ends it.
	shared(t).PatchNode(ill.node, `{"metadata":{"annotations":{"`+v1alpha1.MaintenanceAnnotation+`":"disk swap"}}}`)
	b.Becomes(t, ill.node, haproxy.Fields{"status": "UP", "weight": "0"})
	clients.PassBy(t, ill.node, well.node, ending.node)
	shared(t).PatchNode(ill.node, `{"metadata":{"annotations":{"`+v1alpha1.MaintenanceAnnotation+`":null}}}`)
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
		polls := func() float64 {
			return ill.agent.Metric(t, `node_readiness_agent_check_results_total{check="node_ready",result="passed"}`)
		}
		before := polls()
		cluster.Eventually(t, "HAProxy polls the agent", func() error {
			if n := polls() - before; n < 10 {
				return fmt.Errorf("%v times", n)
			}
			return nil
		})
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
