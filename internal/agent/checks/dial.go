// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Dialer returns a dialer that connects to addresses of this node alone: loopback and those of its links. What a name
// resolves to counts, not the name. allowRemote lifts that.
func Dialer(allowRemote bool) *net.Dialer {
	d := &net.Dialer{}
	if !allowRemote {
		d.Control = func(_, address string, _ syscall.RawConn) error { return refuseRemote(address) }
	}
	return d
}

func refuseRemote(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if a, err := netip.ParseAddr(host); err == nil && isLocal(a.AsSlice()) {
		return nil
	}
	return fmt.Errorf("%s is not an address of this node, and the agent is not started to allow others", host)
}

func isLocal(ip net.IP) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}
