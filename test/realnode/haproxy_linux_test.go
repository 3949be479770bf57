// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/test/cluster/haproxy"
)

// ingress serves on the port of the nodes that the example of HAProxy forwards to. It answers with the node's name.
var ingress = fill(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ingress}
spec:
  selector: {matchLabels: {app: ingress}}
  template:
    metadata: {labels: {app: ingress}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 1
      containers:
      - name: serve
        image: IMAGE
        args: [serve, -listen=:443]
        env:
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        securityContext: {runAsUser: 0} # for a port below 1024
        readinessProbe: {httpGet: {port: 443, path: /readyz}, periodSeconds: 1}
`, "IMAGE", PodImage)

// balancer is an HAProxy as in examples/haproxy in front of the first two nodes, with clients.
type balancer struct {
	health, agentCheck haproxy.Backend
	clients            *haproxy.Clients
}

// balance starts it, and waits until both nodes are in. fall replaces the example's: a node that does not answer is out
// after so many checks.
func balance(t *testing.T, fall string) *balancer {
	t.Helper()
	apply(t, ingress)
	t.Cleanup(func() {
		_, _ = lab.Kubectl(context.Background(), "delete", "daemonset", "ingress", "--cascade=foreground", "--timeout=60s")
	})
	kubectl(t, "rollout", "status", "daemonset/ingress", "--timeout=180s")
	one, two := lab.Nodes()[0], lab.Nodes()[1]
	// Only addresses are others, and time passes ten times as fast.
	h := haproxy.Start(t, lab.Cluster, exampleText(t, "haproxy/haproxy.cfg",
		"server node-1 192.0.2.11:", "server "+one.Name+" "+one.Address+":", "server node-2 192.0.2.12:",
		"server "+two.Name+" "+two.Address+":",
		"    server node-3 192.0.2.13:443", "", "inter 5s", "inter 500ms", "inter 3s fall 10", "inter 300ms fall "+fall))
	b := &balancer{health: h.Backend("nodes-by-health"), agentCheck: h.Backend("nodes-by-agent-check")}
	b.isIn(t, one)
	b.isIn(t, two)
	b.clients = haproxy.StartClients(t, "tcp", Gateway+":443", func(body string) string {
		_, node, _ := strings.Cut(body, " on ")
		node, _, _ = strings.Cut(node, " since ")
		return node
	})
	b.clients.Reach(t, one.Name)
	b.clients.Reach(t, two.Name)
	return b
}

// in waits until HAProxy has taken a node in, and it serves.
func (b *balancer) in(t *testing.T, n *Node) {
	t.Helper()
	b.isIn(t, n)
	b.clients.Reach(t, n.Name)
}

func (b *balancer) isIn(t *testing.T, n *Node) {
	t.Helper()
	b.health.Becomes(t, n.Name, haproxy.Fields{"status": "UP", "check_status": "L7OK", "check_code": "200"})
	b.agentCheck.Becomes(t, n.Name, haproxy.Fields{"status": "UP", "agent_status": "L7OK"})
}

// out waits until HAProxy has taken a node out for what its agent says, and checks that only the other one serves.
func (b *balancer) out(t *testing.T, n, other *Node) {
	t.Helper()
	b.isOut(t, n)
	b.clients.PassBy(t, n.Name, other.Name)
}

func (b *balancer) isOut(t *testing.T, n *Node) {
	t.Helper()
	b.health.Becomes(t, n.Name, haproxy.Fields{"status": "DOWN", "check_status": "L7STS", "check_code": "503"})
	b.agentCheck.Becomes(t, n.Name, haproxy.Fields{"status": "DOWN (agent)", "agent_status": "L7STS"})
}

// wentOutAndIn are HAProxy's changes for a node that its agent takes out for a while.
func wentOutAndIn(node string) []haproxy.Change {
	return []haproxy.Change{
		{Server: node, State: "DOWN", Why: "Layer7 wrong status, code: 503"},
		{Server: node, State: "UP", Why: "Layer7 check passed, code: 200"},
	}
}

// noneFailed checks that each request so far has been answered.
func (b *balancer) noneFailed(t *testing.T) {
	t.Helper()
	if failed := b.clients.Failed(); len(failed) > 0 {
		t.Errorf("%d requests have failed, the first: %s", len(failed), failed[0])
	}
}

// updatesAgents replaces the agents one after another. Each says that it ends before it does, and HAProxy has its node
// back before the next one goes. Meanwhile no server is down.
func updatesAgents(t *testing.T) {
	one, two := lab.Nodes()[0], lab.Nodes()[1]
	b := balance(t, "200") // a minute
	chart(t, "upgrade", filepath.Join(checkout, "charts", "nodegate"), "--reset-then-reuse-values",
		"--set", `agent.podAnnotations.example\.com/turn=second`, "--set", "agent.minReadySeconds=10")
	eventually(t, "an agent that ends drains its node", func() error {
		s := b.agentCheck.Statistics(t)
		err := s.Is(one.Name, haproxy.Fields{"status": "UP", "weight": "0"})
		if err != nil && s.Is(two.Name, haproxy.Fields{"status": "UP", "weight": "0"}) != nil {
			return err
		}
		return nil
	})
	kubectl(t, "-n", "nodegate-system", "rollout", "status", "daemonset/nodegate-agent", "--timeout=180s")
	b.in(t, one)
	b.in(t, two)
	b.noneFailed(t)

	for _, change := range b.health.Changes(t) {
		if change.State == "DOWN" {
			t.Errorf("HAProxy has taken a node out: %+v", change)
		}
	}
	for _, backend := range []haproxy.Backend{b.health, b.agentCheck} {
		if err := backend.Statistics(t).Is(haproxy.Whole, haproxy.Fields{"status": "UP", "chkdown": "0",
			"downtime": "0"}); err != nil {
			t.Error(err)
		}
	}
}
