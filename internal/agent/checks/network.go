// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// Network passes when the names resolve, by the DNS servers of the node's own resolv.conf, and a default gateway is
// reachable, which means that it answers on the link (ARP or neighbour discovery), regardless of what it does with
// packets. Default routes are those of the main table and of VRFs, each with all its next hops; one that is reachable
// is enough. params may be nil.
func Network(env Environment, params *v1alpha1.NetworkCheck) Check {
	params = cmp.Or(params, &v1alpha1.NetworkCheck{})
	return Check{Name: NameNetwork, Run: func(ctx context.Context) Result {
		results := slices.Repeat([]Result{Pass()}, len(params.Resolve)+1)
		resolver := readResolver(env.HostRoot) // it may change at any time
		var all sync.WaitGroup
		for i, host := range params.Resolve {
			all.Go(func() { results[i] = resolver.lookUp(ctx, host) })
		}
		if params.DefaultGateway == nil || *params.DefaultGateway {
			all.Go(func() { results[len(params.Resolve)] = checkGateway(ctx, defaultRoutes) })
		}
		all.Wait()
		return combine(results)
	}}
}

// route is one next hop of a default route.
type route struct {
	link    int
	gateway net.IP // nil: none. In an IPv4 route, it may be an IPv6 address
}

// checkGateway requires one reachable default gateway. If the list of routes is not whole, a reachable one may be
// missing there, and the check fails open.
func checkGateway(ctx context.Context, list func() (routes []route, whole bool, err error)) Result {
	routes, whole, err := list()
	if err != nil {
		return Fail(err.Error())
	}
	fail := Fail
	if !whole {
		fail = func(reason string) Result {
			return FailedOpen("the links and routes of the node change too fast to be listed: " + reason)
		}
	}
	if len(routes) == 0 {
		return fail("there is no default route")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(routes))
	for _, r := range routes {
		go func() { answers <- checkRoute(ctx, r) }()
	}
	var errs []string
	for range routes {
		err := <-answers
		if err == nil {
			return Pass()
		}
		errs = append(errs, err.Error())
	}
	slices.Sort(errs)
	return fail(strings.Join(errs, "; "))
}

func checkRoute(ctx context.Context, r route) error {
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
	if err := reachable(ctx, r.gateway, link); err != nil {
		return fmt.Errorf("the default gateway %s: %w", r.gateway, err)
	}
	return nil
}
