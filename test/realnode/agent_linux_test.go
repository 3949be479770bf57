// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/nodegate/nodegate/test/cluster"
)

// served is a rule that has the agents look at all that they can look at without the API server.
const served = `apiVersion: readiness.node.x-k8s.io/v1alpha1
kind: NodeReadinessRule
metadata: {name: served}
spec:
  nodeSelector: {matchLabels: {example.com/pool: served}}
  conditions: [{type: Ready, requiredStatus: "True"}]
  health:
    checks:
    - {name: node_ready}
    - {name: kubelet, timeoutSeconds: 5} # a busy machine is slow to answer
    - {name: container_runtime, timeoutSeconds: 5}
    - {name: filesystem_ro, timeoutSeconds: 5}
    - {name: disk_pressure, timeoutSeconds: 5, disk: {paths: [/var/lib/small], minFreePercent: 10}}
    - {name: network, timeoutSeconds: 5, network: {resolve: [service.test], defaultGateway: true}}
`

// agentsAnswer breaks one node in each way that its agent looks for, for real, while the other one stays well.
func agentsAnswer(t *testing.T) {
	ctx := t.Context()
	startResolver(t)
	node, other := lab.Nodes[0], lab.Nodes[1]
	for _, n := range []*Node{node, other} {
		on(t, n, "mkdir -p /var/lib/small /var/lib/data && mount -t tmpfs -o size=1m tmpfs /var/lib/small && mount -t "+
			"tmpfs tmpfs /var/lib/data")
	}
	kubectl(t, "label", "node", "--overwrite", node.Name, other.Name, "example.com/pool=served")
	apply(t, served)
	kubectl(t, "-n", "nodegate-system", "rollout", "status", "daemonset/nodegate-agent", "--timeout=5m")
	answers := func(n *Node, failing string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s fails for %q", n.Name, failing), func() error { return healthy(ctx, n, failing) })
	}
	answers(node, "")
	for _, fault := range []struct {
		check         string
		breaks, fixed func()
	}{
		{"kubelet", func() { cluster.Must(t, node.Kubelet.Pause()) }, func() { cluster.Must(t, node.Kubelet.Resume()) }},
		{"container_runtime", func() { cluster.Must(t, node.Runtime.Pause()) },
			func() { cluster.Must(t, node.Runtime.Resume()) }},
		{"filesystem_ro", func() { on(t, node, "mount -o remount,bind,ro /var/lib/data") },
			func() { on(t, node, "mount -o remount,bind,rw /var/lib/data") }},
		{"disk_pressure", func() { on(t, node, "head -c 1000000 /dev/zero > /var/lib/small/full") },
			func() { on(t, node, "rm /var/lib/small/full") }},
		{"network", func() { on(t, node, "ip route del default") },
			func() { on(t, node, "ip route add default via "+Gateway) }},
	} {
		fault.breaks()
		answers(node, fault.check)
		answers(other, "")
		fault.fixed()
		answers(node, "")
	}
	kubectl(t, "delete", "nrr", "served", "--timeout=5m")
	for _, n := range []*Node{node, other} {
		eventually(t, n.Name+"'s agent has forgotten the rule", func() error {
			if body := get(t, "http://"+n.Address+":25001/health"); strings.Contains(body, "disk_pressure") {
				return errors.New(body)
			}
			return nil
		})
		on(t, n, "umount /var/lib/small /var/lib/data")
	}
}

// updatesAgents replaces the agents one after another. Each says that it ends before it does, and the next one follows
// when its successor answers.
func updatesAgents(t *testing.T) {
	codes := make([][]int, 2) // the codes of each node's agent in their order, 0 for none
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asking sync.WaitGroup
	asking.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			ready := 0
			for i, n := range lab.Nodes[:2] {
				code, _, _ := cluster.GetWith(context.Background(), client, "http://"+n.Address+":25001/health", "")
				if len(codes[i]) == 0 || codes[i][len(codes[i])-1] != code {
					codes[i] = append(codes[i], code)
				}
				if code == http.StatusOK {
					ready++
				}
			}
			if ready == 0 {
				t.Errorf("no agent answers that its node is ready: %v", codes)
			}
		}
	})
	chart(t, "upgrade", filepath.Join(checkout, "charts", "nodegate"), "--reset-then-reuse-values",
		"--set", `agent.podAnnotations.example\.com/turn=second`, "--set", "agent.minReadySeconds=10")
	kubectl(t, "-n", "nodegate-system", "rollout", "status", "daemonset/nodegate-agent", "--timeout=5m")
	stop()
	asking.Wait()
	for _, got := range codes {
		if diff := cmp.Diff([]int{200, 404, 0, 200}, got); diff != "" {
			t.Errorf("the answers of a node, -want +got:\n%s", diff)
		}
	}
}

// on runs a line of shell on a node.
func on(t *testing.T, n *Node, line string) {
	t.Helper()
	if _, err := n.Run(t.Context(), "/bin/sh", "-c", line); err != nil {
		t.Fatal(err)
	}
}

// healthy wants a node's agent to answer 200, or 503 because of one check, which may take others with it.
func healthy(ctx context.Context, n *Node, failing string) error {
	status, body, err := cluster.GetWith(ctx, client, "http://"+n.Address+":25001/health", "")
	if err != nil {
		return err
	}
	answer := struct {
		Checks []struct {
			Name   string `json:"name"`
			Passed bool   `json:"passed"`
		} `json:"checks"`
	}{}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return fmt.Errorf("%s answers %q: %w", n.Name, body, err)
	}
	found := failing == ""
	for _, c := range answer.Checks {
		found = found || c.Name == failing && !c.Passed
	}
	want := http.StatusOK
	if failing != "" {
		want = http.StatusServiceUnavailable
	}
	if status != want || !found || len(answer.Checks) != strings.Count(served, "- {name:") {
		return fmt.Errorf("%s answers %d: %s", n.Name, status, body)
	}
	return nil
}

// startResolver starts the nodes' resolver, which answers each question for a name with one address.
func startResolver(t *testing.T) {
	t.Helper()
	conn, err := net.ListenPacket("udp", Gateway+":53")
	cluster.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := resolve(buffer[:n]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
}

func resolve(question []byte) ([]byte, error) {
	m := dnsmessage.Message{}
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}},
			})
		}
	}
	return m.Pack()
}
