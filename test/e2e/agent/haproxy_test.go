// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodegate/nodegate/test/cluster/haproxy"
)

// HAProxy takes a server out after fall failed checks in a row, and back in after rise good ones.
const rise, fall = "2", "3"

// front is the socket of HAProxy's frontend.
const front = "front.sock"

const haproxyConfig = `
defaults
    mode http
    timeout connect 30s
    timeout client 60s
    timeout server 60s
    timeout check 30s
frontend front
    bind unix@` + front + `
    default_backend nodes
backend nodes
    balance roundrobin
    %[1]s
    default-server inter 200ms rise ` + rise + ` fall ` + fall + `
    %[2]s
`

// startHAProxy starts an HAProxy in front of the servers, which are lines of its configuration.
func startHAProxy(t *testing.T, check string, servers []string) *haproxy.HAProxy {
	t.Helper()
	return haproxy.Start(t, clusters.Get(t), fmt.Sprintf(haproxyConfig, check, strings.Join(servers, "\n    ")))
}

// startClients starts clients of the members' services, which answer with the names of their nodes.
func startClients(t *testing.T, h *haproxy.HAProxy) *haproxy.Clients {
	t.Helper()
	return haproxy.StartClients(t, "unix", h.Path(front), func(body string) string { return body })
}

// noneFailed also asks HAProxy, which may have tried more than once.
func noneFailed(t *testing.T, b haproxy.Backend, clients *haproxy.Clients) {
	t.Helper()
	if failed := clients.Failed(); len(failed) > 0 {
		t.Errorf("%d requests have failed, the first: %s", len(failed), failed[0])
	}
	never := haproxy.Fields{"econ": "0", "eresp": "0", "wretr": "0", "wredis": "0", "hrsp_5xx": "0"}
	if err := b.Statistics(t).Is(haproxy.Whole, never); err != nil {
		t.Error(err)
	}
}
