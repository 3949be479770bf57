// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	// resolvConf says which DNS servers programs ask: see resolv.conf(5).
	resolvConf = "/etc/resolv.conf"
	// maxServers and maxDots are the limits of the C library.
	maxServers = 3
	maxDots    = 15
)

// resolver is what a resolv.conf says.
type resolver struct {
	servers, search []string
	dots            int // names with fewer dots are searched first
}

// readResolver reads the node's resolv.conf, or else that of this process.
func readResolver(hostRoot string) resolver {
	path, err := HostPath(hostRoot, resolvConf)
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		raw, _ = os.ReadFile(resolvConf) // without one, a server on this machine is asked
	}
	return parseResolver(string(raw))
}

func parseResolver(conf string) resolver {
	r := resolver{dots: 1}
	for line := range strings.Lines(conf) {
		if i := strings.IndexAny(line, "#;"); i >= 0 {
			line = line[:i]
		}
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			if len(r.servers) < maxServers {
				r.servers = append(r.servers, words[1])
			}
		case "search", "domain": // the last one counts
			r.search = words[1:]
		case "options":
			for _, option := range words[1:] {
				if n, ok := strings.CutPrefix(option, "ndots:"); ok {
					r.dots, _ = strconv.Atoi(n)
					r.dots = min(max(r.dots, 0), maxDots)
				}
			}
		}
	}
	if len(r.servers) == 0 {
		r.servers = []string{"127.0.0.1"}
	}
	return r
}

// names returns the absolute names to ask for, in order.
func (r *resolver) names(host string) []string {
	if strings.HasSuffix(host, ".") {
		return []string{host}
	}
	var names []string
	for _, domain := range r.search {
		names = append(names, host+"."+strings.TrimSuffix(domain, ".")+".")
	}
	if strings.Count(host, ".") >= r.dots {
		return slices.Insert(names, 0, host+".")
	}
	return append(names, host+".")
}

// lookUp asks all servers at the same time. Programs ask one after the other and wait 5 s for each: the check has less
// time, and one dead server of several is no reason to take the node out. One answer is enough.
func (r *resolver) lookUp(ctx context.Context, host string) Result {
	if net.ParseIP(host) != nil {
		return Pass()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		server int
		err    error
	}
	answers := make(chan answer, len(r.servers))
	for i, server := range r.servers {
		go func() { answers <- answer{i, ask(ctx, server, r.names(host))} }()
	}
	failed := make([]string, len(r.servers))
	for range r.servers {
		a := <-answers
		if a.err == nil {
			return Pass()
		}
		failed[a.server] = fmt.Sprintf("%v (%s)", a.err, r.servers[a.server])
	}
	return Fail(fmt.Sprintf("resolving %s: %s", host, strings.Join(failed, ", ")))
}

// ask asks one server for the names, until it knows one of them.
func ask(ctx context.Context, server string, names []string) error {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(server, "53"))
	}
	var err error
	for _, name := range names {
		_, err = (&net.Resolver{PreferGo: true, Dial: dial}).LookupHost(ctx, name)
		dns, ok := errors.AsType[*net.DNSError](err)
		switch {
		case err == nil:
			return nil
		case ok && dns.IsNotFound:
			err = errors.New(dns.Err)
			continue
		case ok && dns.IsTimeout, ctx.Err() != nil:
			return errors.New("no answer")
		case ok:
			return errors.New(dns.Err)
		}
		return err
	}
	return err
}
