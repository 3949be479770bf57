// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"net/netip"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// remote warns about probes and health checks that ask another machine.
func (l *linter) remote() {
	for i := range l.rule.Spec.Probes {
		p := &l.rule.Spec.Probes[i]
		field := fmt.Sprintf("spec.probes[%d]", i)
		l.remoteRequest(field+".httpGet.host", p.HTTPGet)
		if p.TCPSocket != nil {
			l.remoteHost(field+".tcpSocket.host", p.TCPSocket.Host)
		}
		if p.GRPC != nil {
			l.remoteHost(field+".grpc.host", p.GRPC.Host)
		}
	}
	if l.rule.Spec.Health == nil {
		return
	}
	for i := range l.rule.Spec.Health.Checks {
		l.remoteRequest(fmt.Sprintf("spec.health.checks[%d].httpGet.host", i), l.rule.Spec.Health.Checks[i].HTTPGet)
	}
}

func (l *linter) remoteRequest(field string, a *v1alpha1.HTTPGetAction) {
	if a != nil {
		l.remoteHost(field, a.Host)
	}
}

func (l *linter) remoteHost(field, host string) {
	address, err := netip.ParseAddr(host)
	if host == "" || host == "localhost" || err == nil && (address.IsLoopback() || address.IsUnspecified()) {
		return
	}
	l.warn(RemoteAddress, field, "node agents connect to other addresses than those of their own node only with "+
		"--allow-remote (agent.allowRemote in the chart): without it, %s fails on all other nodes", host)
}
