// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// defaultRoutes returns the next hops of all default routes in the main table and in the tables of VRFs. whole is false
// if links or routes changed during each try, so that some may be missing.
func defaultRoutes() (routes []route, whole bool, err error) {
	links, whole, err := dump(netlink.LinkList)
	if err != nil {
		return nil, false, fmt.Errorf("listing the links: %w", err)
	}
	routes, wholeRoutes, err := defaultRoutesIn(routeTables(links))
	return routes, whole && wholeRoutes, err
}

// dumpTries is how often the agent asks the kernel for a list that changes while the kernel returns it.
const dumpTries = 5

// dump returns a list of the kernel. whole is false if each try was interrupted: entries may then be missing, even all.
func dump[T any](list func() ([]T, error)) (found []T, whole bool, err error) {
	for range dumpTries {
		if found, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return found, err == nil, err
		}
	}
	return found, false, nil
}

// routeTables returns the main table and those of the VRFs among the links.
func routeTables(links []netlink.Link) map[int]bool {
	tables := map[int]bool{unix.RT_TABLE_MAIN: true}
	for _, l := range links {
		if vrf, ok := l.(*netlink.Vrf); ok {
			tables[int(vrf.Table)] = true
		}
	}
	return tables
}

func defaultRoutesIn(tables map[int]bool) (routes []route, whole bool, err error) {
	whole = true
	filter := &netlink.Route{Table: unix.RT_TABLE_UNSPEC, Type: unix.RTN_UNICAST}
	const by = netlink.RT_FILTER_TABLE | netlink.RT_FILTER_TYPE
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		found, all, err := dump(func() ([]netlink.Route, error) { return netlink.RouteListFiltered(family, filter, by) })
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) { // IPv6 is switched off
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("listing the routes: %w", err)
		}
		whole = whole && all
		for i := range found {
			if r := &found[i]; tables[r.Table] && isDefault(r.Dst) {
				routes = append(routes, nextHops(r)...)
			}
		}
	}
	return routes, whole, nil
}

func isDefault(to *net.IPNet) bool {
	if to == nil {
		return true
	}
	ones, _ := to.Mask.Size()
	return ones == 0 && to.IP.IsUnspecified()
}

func nextHops(r *netlink.Route) []route {
	if len(r.MultiPath) == 0 {
		return []route{{r.LinkIndex, gateway(r.Gw, r.Via)}}
	}
	var hops []route
	for _, hop := range r.MultiPath {
		hops = append(hops, route{hop.LinkIndex, gateway(hop.Gw, hop.Via)})
	}
	return hops
}

// gateway returns the address of a next hop, which may be an IPv6 address in an IPv4 route.
func gateway(gw net.IP, via netlink.Destination) net.IP {
	if v, ok := via.(*netlink.Via); ok {
		return v.Addr
	}
	return gw
}

// discard is the port of the discard protocol, which never answers.
const discard = 9

// reachable sends a packet to a neighbor on a link, so that the kernel resolves its address, and waits for that. It
// needs no privilege. Like the kernel, it trusts a neighbor that no longer answers for some more seconds.
func reachable(ctx context.Context, ip net.IP, link *net.Interface) error {
	address := net.IPAddr{IP: ip}
	if ip.IsLinkLocalUnicast() && ip.To4() == nil {
		address.Zone = link.Name
	}
	// Without this, the packet to the gateway of one next hop, or of a VRF, may leave through another link. Old kernels
	// require a privilege for it.
	bind := func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.BindToDevice(int(fd), link.Name) })
	}
	dialer := net.Dialer{Control: bind}
	conn, err := dialer.DialContext(ctx, "udp", net.JoinHostPort(address.String(), fmt.Sprint(discard)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for {
		if _, err := conn.Write([]byte{0}); errors.Is(err, syscall.EHOSTUNREACH) {
			return err
		}
		state, err := neighbourState(ip, link.Index)
		if err != nil {
			return err
		}
		switch {
		case state&(unix.NUD_REACHABLE|unix.NUD_STALE|unix.NUD_DELAY|unix.NUD_PROBE|unix.NUD_NOARP|unix.NUD_PERMANENT) != 0:
			return nil
		case state&unix.NUD_FAILED != 0:
			return errors.New("does not answer on the link")
		}
		select {
		case <-ctx.Done():
			return errors.New("does not answer on the link in time")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// neighbourState reads the kernel's neighbor table; 0: no entry.
func neighbourState(ip net.IP, link int) (int, error) {
	family := netlink.FAMILY_V6
	if ip.To4() != nil {
		family = netlink.FAMILY_V4
	}
	neighbours, err := netlink.NeighList(link, family)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return 0, fmt.Errorf("listing the neighbors: %w", err)
	}
	for i := range neighbours {
		if neighbours[i].IP.Equal(ip) {
			return neighbours[i].State, nil
		}
	}
	return 0, nil
}
