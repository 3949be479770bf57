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
// A local address is not enough: kube-proxy in IPVS mode adds the address of every Service to the link kube-ipvs0. An
// address of the Node may be on any link.
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

// ipvs is the link with the addresses of Services.
const ipvs = "kube-ipvs0"

func (env Environment) isOwn(ip net.IP) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	link, ok := linkOf(ip)
	if !ok {
		return false
	}
	if env.Node != nil {
		if n, _ := env.Node.Current(); n.Object != nil {
			return slices.ContainsFunc(n.Object.Status.Addresses, func(a corev1.NodeAddress) bool {
				return ip.Equal(net.ParseIP(a.Address))
			})
		}
	}
	return link != ipvs // the Node is unknown: its addresses are usually not on that link
}

// linkOf returns the name of the link that has an address.
func linkOf(ip net.IP) (string, bool) {
	links, err := net.Interfaces()
	if err != nil {
		return "", false
	}
	for i := range links {
		addresses, err := links[i].Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return links[i].Name, true
			}
		}
	}
	return "", false
}
