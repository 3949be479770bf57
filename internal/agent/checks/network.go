// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Network passes when the names resolve and a default gateway is reachable, which means that it answers on the link
// (ARP or neighbour discovery), regardless of what it does with packets. Default routes are those of the main table and
// of VRFs, each with all its next hops; one that is reachable is enough. params may be nil.
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

// network is the check. Its functions are fields, for tests.
type network struct {
	resolve []string
	gateway bool
	lookup  func(ctx context.Context, host string) ([]string, error)
	routes  func() ([]route, error)
	reach   func(ctx context.Context, gateway net.IP, link *net.Interface) error
}

// route is one next hop of a default route.
type route struct {
	link    int
	gateway net.IP // nil: none. In an IPv4 route, it may be an IPv6 address
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

// checkGateway requires one reachable default gateway.
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
	link, err := net.InterfaceByIndex(r.link)
	if err != nil {
		return fmt.Errorf("the link %d: %w", r.link, err)
	}
	if link.Flags&net.FlagRunning == 0 {
		return fmt.Errorf("the link %s is down", link.Name)
	}
	if r.gateway == nil || link.Flags&net.FlagPointToPoint != 0 { // there is no neighbor
		return nil
	}
	if err := n.reach(ctx, r.gateway, link); err != nil {
		return fmt.Errorf("the default gateway %s: %w", r.gateway, err)
	}
	return nil
}
