// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

func TestNetwork(t *testing.T) {
	link := runningLink(t)
	good, bad := net.IP{192, 0, 2, 1}, net.IP{192, 0, 2, 99}
	n := network{
		lookup: func(_ context.Context, host string) ([]string, error) {
			switch host {
			case "silent.example":
				return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}
			case "unknown.example":
				return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
			}
			return []string{"192.0.2.7"}, nil
		},
		reach: func(_ context.Context, gateway net.IP, _ *net.Interface) error {
			if gateway.Equal(good) {
				return nil
			}
			return errors.New("does not answer on the link")
		},
	}
	for _, c := range []struct {
		name    string
		resolve []string
		gateway bool
		routes  []route
		want    Result
	}{
		{"nothing to do", nil, false, nil, Pass()},
		{"no default route", nil, true, nil, Fail("there is no default route")},
		{"the gateway is gone", nil, true, []route{{link, bad}}, Fail("the default gateway 192.0.2.99: does not answer on " +
			"the link")},
		{"one gateway of two suffices", nil, true, []route{{link, bad}, {link, good}}, Pass()},
		{"a link that is not there", nil, true, []route{{1 << 20, good}},
			Fail("the link 1048576: route ip+net: no such network interface")},
		{"all names resolve", []string{"a.example", "b.example"}, false, nil, Pass()},
		{"a silent resolver", []string{"a.example", "silent.example"}, false, nil,
			Fail("resolving silent.example: no answer")},
		{"all that is wrong is told", []string{"unknown.example"}, true, nil,
			Fail("resolving unknown.example: no such host; there is no default route")},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := n
			n.resolve, n.gateway = c.resolve, c.gateway
			n.routes = func() ([]route, error) { return c.routes, nil }
			if diff := cmp.Diff(c.want, n.look(t.Context())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// runningLink is a link that is up: loopback, everywhere.
func runningLink(t *testing.T) int {
	t.Helper()
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Flags&net.FlagRunning != 0 && l.Flags&net.FlagLoopback != 0 {
			return l.Index
		}
	}
	t.Fatal("loopback is down")
	return 0
}

func TestTheGatewayIsCheckedByDefault(t *testing.T) {
	off := false
	if Network(&v1alpha1.NetworkCheck{DefaultGateway: &off}).Run(t.Context()) != Pass() {
		t.Error("nothing to do, and yet failed")
	}
	if _, err := defaultRoutes(); err != nil {
		t.Errorf("this machine's own routes: %v", err)
	}
}
