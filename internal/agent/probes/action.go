// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/agent/checks"
	"github.com/nodegate/nodegate/internal/agent/config"
)

// Defaults of a rule's probe.
const (
	DefaultPeriod           = 30 * time.Second
	DefaultTimeout          = 10 * time.Second
	DefaultSuccessThreshold = 1
	DefaultFailureThreshold = 3
)

// ForRules returns the probes of a node: the agent's own, and those of the rules that match. If two of them publish the
// same condition, the first one does, and the other one is returned as a problem. So is a probe that this agent does
// not know, because the operator is newer: it is skipped.
func ForRules(env checks.Environment, own []Probe, rules []config.Rule) ([]Probe, []error) {
	out := slices.Clone(own)
	var problems []error
	owner := map[string]string{}
	for i := range own {
		owner[own[i].ConditionType] = "the reporter"
	}
	for _, rule := range rules {
		for j := range rule.Probes {
			name := rule.Probes[j].ConditionType
			switch {
			case owner[name] != "":
				problems = append(problems,
					fmt.Errorf("rule %s: the condition %s is published by %s", rule.Name, name, owner[name]))
			case name == "" || v1alpha1.KubernetesCondition(name): // the API refuses these, unless the CRD is another version's
				problems = append(problems, fmt.Errorf("rule %s: the condition %s belongs to kubelet or the cloud provider",
					rule.Name, name))
			default:
				owner[name] = "the older rule " + rule.Name
				p, err := fromSpec(&rule.Probes[j], env)
				if err != nil {
					problems = append(problems, fmt.Errorf("rule %s: the probe of %s: %w", rule.Name, name, err))
				}
				out = append(out, p)
			}
		}
	}
	return out, problems
}

// fromSpec returns a probe that a rule configures. If this agent does not know it, the probe is skipped, and the error
// says why.
func fromSpec(spec *v1alpha1.Probe, env checks.Environment) (Probe, error) {
	identity, _ := json.Marshal(spec) // strings and numbers: cannot fail
	p := Probe{
		ConditionType:    spec.ConditionType,
		Identity:         string(identity),
		Period:           seconds(spec.PeriodSeconds, DefaultPeriod),
		SuccessThreshold: count(spec.SuccessThreshold, DefaultSuccessThreshold),
		FailureThreshold: count(spec.FailureThreshold, DefaultFailureThreshold),
		Heartbeat:        DefaultHeartbeat,
	}
	c, err := action(spec, env)
	c.Timeout = seconds(spec.TimeoutSeconds, DefaultTimeout)
	p.Check, p.Skip = c, err != nil
	return p, err
}

func seconds(n *int32, def time.Duration) time.Duration {
	if n == nil || *n < 1 {
		return def
	}
	return time.Duration(*n) * time.Second
}

func count(n *int32, def int) int {
	if n == nil || *n < 1 {
		return def
	}
	return int(*n)
}

// action returns the check that a probe runs.
func action(spec *v1alpha1.Probe, env checks.Environment) (checks.Check, error) {
	dialer := env.Dialer()
	switch {
	case spec.HTTPGet != nil:
		return checks.HTTP(checks.NameHTTPPrefix+"probe", spec.HTTPGet, dialer)
	case spec.TCPSocket != nil:
		return checks.Check{Run: tcp(spec.TCPSocket, dialer)}, nil
	case spec.GRPC != nil:
		return checks.Check{Run: grpcHealth(spec.GRPC, dialer)}, nil
	case spec.File != nil:
		return env.OfFiles(checks.Check{Run: file(spec.File, env.HostRoot)}), nil
	case spec.Check != "" && !strings.Contains(spec.Check, ":"): // no probe runs a check that rules define
		return checks.FromSpec(&v1alpha1.HealthCheck{Name: spec.Check}, env, nil)
	}
	return checks.Check{}, errors.New("this agent does not know its action")
}

func tcp(a *v1alpha1.TCPSocketAction, dialer *net.Dialer) func(context.Context) checks.Result {
	return func(ctx context.Context) checks.Result {
		conn, err := dialer.DialContext(ctx, "tcp", checks.Address(a.Host, a.Port))
		if err != nil {
			return checks.Fail(checks.Address(a.Host, a.Port) + ": " + checks.DialReason(err))
		}
		_ = conn.Close()
		return checks.Pass()
	}
}

// grpcHealth works like the kubelet's gRPC probes: see https://github.com/grpc/grpc/blob/master/doc/health-checking.md.
func grpcHealth(a *v1alpha1.GRPCAction, dialer *net.Dialer) func(context.Context) checks.Result {
	return func(ctx context.Context) checks.Result {
		var unreachable atomic.Pointer[string] // gRPC's error has more text, in the library's words
		dial := func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				unreachable.Store(new(checks.DialReason(err)))
			}
			return conn, err
		}
		conn, err := grpc.NewClient("passthrough:///"+checks.Address(a.Host, a.Port), grpc.WithContextDialer(dial),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
		if err != nil {
			return checks.Fail(err.Error())
		}
		defer func() { _ = conn.Close() }()
		resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: a.Service})
		if err != nil {
			why := checks.GRPCReason(err, "timed out")
			if reason := unreachable.Load(); reason != nil && status.Code(err) == codes.Unavailable {
				why = *reason
			}
			return checks.Fail(checks.Address(a.Host, a.Port) + ": " + why)
		}
		if s := resp.GetStatus(); s != healthpb.HealthCheckResponse_SERVING {
			return checks.Fail("the service is " + s.String())
		}
		return checks.Pass()
	}
}

func file(a *v1alpha1.FileAction, hostRoot string) func(context.Context) checks.Result {
	return func(context.Context) checks.Result {
		path, err := checks.HostPath(hostRoot, a.Path)
		var info os.FileInfo
		if err == nil {
			info, err = os.Stat(path)
		}
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return checks.Fail("there is no file " + a.Path)
			}
			return checks.Fail(err.Error())
		}
		limit := seconds(a.MaxAgeSeconds, 0)
		if age := time.Since(info.ModTime()); limit > 0 && age > limit {
			// Not the age, which would change the message with each run.
			return checks.Fail(fmt.Sprintf("%s was last changed at %s, more than %s ago", a.Path,
				info.ModTime().UTC().Format(time.RFC3339), limit))
		}
		return checks.Pass()
	}
}
