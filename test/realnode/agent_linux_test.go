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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/cluster/haproxy"
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
    - {name: disk_pressure, timeoutSeconds: 5, disk: {paths: [/var/lib/small], minimumFreePercent: 10}}
    - {name: network, timeoutSeconds: 5, network: {resolve: [service.test], defaultGateway: true}}
`

// agentsAnswer breaks one node in each way that its agent looks for, for real, while the other one stays well. An
// HAProxy takes the node out each time, and in again.
func agentsAnswer(t *testing.T) {
	ctx := t.Context()
	resolver := startResolver(t)
	node, other := lab.Nodes()[0], lab.Nodes()[1]
	for _, n := range []*Node{node, other} {
		on(t, n, "mkdir -p /var/lib/small /var/lib/data && mount -t tmpfs -o size=1m tmpfs /var/lib/small && mount -t "+
			"tmpfs tmpfs /var/lib/data")
	}
	kubectl(t, "label", "node", "--overwrite", node.Name, other.Name, "example.com/pool=served")
	apply(t, served)
	kubectl(t, "-n", "nodegate-system", "rollout", "status", "daemonset/nodegate-agent", "--timeout=180s")
	well := func(n *Node) {
		t.Helper()
		eventually(t, n.Name+" is well", func() error { return healthy(ctx, n, "") })
	}
	well(node)
	well(other)
	b := balance(t, "10")
	var want []haproxy.Change

	for _, fault := range []struct {
		check         string
		breaks, fixed func()
	}{
		{"kubelet", func() { cluster.Must(t, node.Kubelet.Pause()) }, func() { cluster.Must(t, node.Kubelet.Resume()) }},
		{"container_runtime", func() { cluster.Must(t, node.Runtime.Pause()) },
			func() { cluster.Must(t, node.Runtime.Resume()) }},
		{"filesystem_ro", func() { on(t, node, "mount -o remount,bind,ro /var/lib/data") },
			func() { on(t, node, "mount -o remount,bind,rw /var/lib/data") }},
		{"filesystem_ro", func() { on(t, node, "mount -o remount,ro /var/lib/data") },
			func() { on(t, node, "mount -o remount,rw /var/lib/data") }},
		{"disk_pressure", func() { on(t, node, "head -c 1000000 /dev/zero > /var/lib/small/full") },
			func() { on(t, node, "rm /var/lib/small/full") }},
		{"network", func() { on(t, node, "ip route del default") },
			func() { on(t, node, "ip route add default via "+Gateway) }},
	} {
		began := time.Now()
		fault.breaks()
		eventually(t, node.Name+" fails for "+fault.check, func() error { return healthy(ctx, node, fault.check) })
		eventually(t, other.Name+" is well while "+fault.check+" fails on "+node.Name,
			func() error { return healthy(ctx, other, "") })
		b.out(t, node, other)
		t.Logf("%s: out after %s", fault.check, time.Since(began).Round(100*time.Millisecond))
		fault.fixed()
		well(node)
		b.in(t, node)
		want = append(want, wentOutAndIn(node.Name)...)
	}
	b.noneFailed(t)
	if diff := cmp.Diff(want, b.health.Changes(t)); diff != "" {
		t.Errorf("HAProxy's changes, -want +got:\n%s", diff)
	}
	b.clients.Stop()

	resolver.stop()
	for _, n := range []*Node{node, other} {
		eventually(t, "no resolver answers", func() error { return healthy(ctx, n, "network") })
		b.isOut(t, n)
	}
	resolver.start(t)
	for _, n := range []*Node{node, other} {
		b.isIn(t, n)
	}
	kubectl(t, "delete", "nrr", "served", "--timeout=60s")
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

// resolver is the nodes'. It answers each question for a name with one address.
type resolver struct{ conn net.PacketConn }

func startResolver(t *testing.T) *resolver {
	t.Helper()
	r := &resolver{}
	r.start(t)
	t.Cleanup(r.stop)
	return r
}

func (r *resolver) stop() { _ = r.conn.Close() }

func (r *resolver) start(t *testing.T) {
	t.Helper()
	conn, err := net.ListenPacket("udp", Gateway+":53")
	cluster.Must(t, err)
	r.conn = conn
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
