// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// Dialer returns a dialer for the checks and probes of rules. It connects only to loopback, and to the addresses in the
// Node's status that belong to this machine. The address that a name resolves to counts. AllowRemote removes this
// limit.
//
// A local address is not enough: it may be the pod bridge's, or a Service's. kube-proxy in IPVS mode adds the address
// of every Service to a link.
func (env Environment) Dialer() *net.Dialer {
	d := &net.Dialer{}
	if !env.AllowRemote {
		d.Control = func(_, address string, _ syscall.RawConn) error { return env.refuseRemote(address) }
	}
	return d
}

func (env Environment) refuseRemote(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if a, err := netip.ParseAddr(host); err == nil && env.isOwn(a.AsSlice()) {
		return nil
	}
	return fmt.Errorf("%s is not an address of this node, and the agent runs without --allow-remote", host)
}

func (env Environment) isOwn(ip net.IP) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	return env.Node != nil && isLocal(ip) && slices.ContainsFunc(env.Node.Addresses(), func(a corev1.NodeAddress) bool {
		return ip.Equal(net.ParseIP(a.Address))
	})
}

// isLocal reports whether a link of this machine has the address.
func isLocal(ip net.IP) bool {
	local, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(local, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
