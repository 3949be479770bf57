// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// The kernel's routing tables; the formats are those of fib_route_seq_show and rt6_info_route in its source.
const (
	routesV4 = "/proc/net/route"
	routesV6 = "/proc/net/ipv6_route"

	routeUp      = 0x1   // RTF_UP
	routeReject  = 0x200 // RTF_REJECT
	routeGateway = 0x2   // RTF_GATEWAY
)

// Network passes when the names resolve and a default gateway is reachable, which means that it answers on the link (ARP or
// neighbour discovery), whatever it does with packets. params may be nil.
func Network(params *v1alpha1.NetworkCheck) Check {
	if params == nil {
		params = &v1alpha1.NetworkCheck{}
	}
	n := network{
		resolve: params.Resolve,
		gateway: params.DefaultGateway == nil || *params.DefaultGateway,
		lookup:  (&net.Resolver{PreferGo: true}).LookupHost,
		routes:  defaultRoutes,
		reach:   reachable,
	}
	return Check{Name: NameNetwork, Run: n.look}
}

// network is the check, with what it asks as fields, for tests.
type network struct {
	resolve []string
	gateway bool
	lookup  func(ctx context.Context, host string) ([]string, error)
	routes  func() ([]route, error)
	reach   func(ctx context.Context, gateway net.IP, link int) error
}

// route is a default route.
type route struct {
	device  string
	gateway net.IP // nil: none, the link has one other end
}

func (n *network) look(ctx context.Context) Result {
	problems := make([]string, len(n.resolve)+1)
	var all sync.WaitGroup
	for i, host := range n.resolve {
		all.Go(func() { problems[i] = n.lookUp(ctx, host) })
	}
	if n.gateway {
		all.Go(func() { problems[len(n.resolve)] = n.checkGateway(ctx) })
	}
	all.Wait()
	var found []string
	for _, p := range problems {
		if p != "" {
			found = append(found, p)
		}
	}
	if len(found) > 0 {
		return Fail(strings.Join(found, "; "))
	}
	return Pass()
}

func (n *network) lookUp(ctx context.Context, host string) string {
	_, err := n.lookup(ctx, host)
	if err == nil {
		return ""
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsTimeout {
			return fmt.Sprintf("resolving %s: no answer", host)
		}
		return fmt.Sprintf("resolving %s: %s", host, dns.Err)
	}
	return fmt.Sprintf("resolving %s: %v", host, err)
}

// checkGateway wants one default gateway that answers: where there are several, one is enough to reach the world.
func (n *network) checkGateway(ctx context.Context) string {
	routes, err := n.routes()
	if err != nil {
		return err.Error()
	}
	if len(routes) == 0 {
		return "there is no default route"
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(routes))
	for _, r := range routes {
		go func() { answers <- n.checkRoute(ctx, r) }()
	}
	var errs []string
	for range routes {
		err := <-answers
		if err == nil {
			return ""
		}
		errs = append(errs, err.Error())
	}
	slices.Sort(errs)
	return strings.Join(errs, "; ")
}

func (n *network) checkRoute(ctx context.Context, r route) error {
	link, err := net.InterfaceByName(r.device)
	if err != nil {
		return fmt.Errorf("the link %s: %w", r.device, err)
	}
	if link.Flags&net.FlagRunning == 0 {
		return fmt.Errorf("the link %s is down", r.device)
	}
	if r.gateway == nil {
		return nil
	}
	if err := n.reach(ctx, r.gateway, link.Index); err != nil {
		return fmt.Errorf("the default gateway %s: %w", r.gateway, err)
	}
	return nil
}

func defaultRoutes() ([]route, error) {
	routes, err := readRoutes(routesV4, parseRoutesV4)
	if err != nil {
		return nil, err
	}
	v6, err := readRoutes(routesV6, parseRoutesV6)
	if err != nil && !os.IsNotExist(err) { // it is not there where IPv6 is switched off
		return nil, err
	}
	return append(routes, v6...), nil
}

func readRoutes(file string, parse func(io.Reader) ([]route, error)) ([]route, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return parse(f)
}

// parseRoutesV4 returns the default routes of /proc/net/route. Addresses there are hexadecimal, in the byte order of the
// machine.
func parseRoutesV4(r io.Reader) ([]route, error) {
	var routes []route
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		// Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[0] == "Iface" {
			continue
		}
		flags, err := strconv.ParseUint(f[3], 16, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: flags %q: %w", routesV4, f[3], err)
		}
		if f[1] != "00000000" || f[7] != "00000000" || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		def := route{device: f[0]}
		if flags&routeGateway != 0 {
			gateway, err := strconv.ParseUint(f[2], 16, 32)
			if err != nil {
				return nil, fmt.Errorf("%s: gateway %q: %w", routesV4, f[2], err)
			}
			def.gateway = make(net.IP, net.IPv4len)
			binary.NativeEndian.PutUint32(def.gateway, uint32(gateway))
		}
		routes = append(routes, def)
	}
	return routes, lines.Err()
}

// parseRoutesV6 returns the default routes of /proc/net/ipv6_route. The kernel's own catch-all entries are on lo, rejected.
func parseRoutesV6(r io.Reader) ([]route, error) {
	const zero = "00000000000000000000000000000000"
	var routes []route
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		// destination length source length next-hop metric refcnt use flags device
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[0] != zero || f[1] != "00" {
			continue
		}
		flags, err := strconv.ParseUint(f[8], 16, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: flags %q: %w", routesV6, f[8], err)
		}
		if flags&routeUp == 0 || flags&routeReject != 0 || f[9] == "lo" {
			continue
		}
		def := route{device: f[9]}
		if flags&routeGateway != 0 {
			gateway, err := hex.DecodeString(f[4])
			if err != nil || len(gateway) != net.IPv6len {
				return nil, fmt.Errorf("%s: cannot read the gateway %q", routesV6, f[4])
			}
			def.gateway = gateway
		}
		routes = append(routes, def)
	}
	return routes, lines.Err()
}
