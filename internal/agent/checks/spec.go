// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// FromSpec returns a check that a rule configures. evidence is the evidence of all rules with health that match the
// node. An invalid check is an error.
func FromSpec(spec *v1alpha1.HealthCheck, env Environment, evidence []Evidence) (Check, error) {
	c, err := bySpec(spec, env, evidence)
	if err != nil {
		return Check{}, err
	}
	if spec.TimeoutSeconds != nil && *spec.TimeoutSeconds > 0 {
		c.Timeout = time.Duration(*spec.TimeoutSeconds) * time.Second
	}
	if c.Instant == nil && spec.CacheSeconds > 0 { // a result from memory needs no cache
		c.Period = time.Duration(spec.CacheSeconds) * time.Second
	}
	return c, nil
}

func bySpec(spec *v1alpha1.HealthCheck, env Environment, evidence []Evidence) (Check, error) {
	switch spec.Name {
	case NameFilesystem:
		return env.ofFiles(FilesystemRO(env, spec.Filesystem, time.Duration(spec.CacheSeconds)*time.Second)), nil
	case NameContainerRuntime:
		return env.ofFiles(ContainerRuntime(env.HostRoot, spec.ContainerRuntime)), nil
	case NameDiskPressure:
		return env.ofFiles(DiskPressure(env.HostRoot, spec.Disk)), nil
	case NameNetwork:
		return Network(spec.Network), nil
	case NameCustomConditions:
		var types []string
		if spec.CustomConditions != nil {
			types = spec.CustomConditions.Types
		}
		return CustomConditions(env.Node, evidence, types), nil
	case NameRules:
		return Rules(env.Node, evidence), nil
	}
	if name, ok := strings.CutPrefix(spec.Name, NameRulePrefix); ok {
		for _, e := range evidence {
			if e.Name == name {
				return Rule(env.Node, e), nil
			}
		}
		return Check{Name: spec.Name, Instant: func() (Result, bool) { // the rule may match other nodes
			return FailedOpen("the rule has no health, or does not match this node"), true
		}}, nil
	}
	if strings.HasPrefix(spec.Name, NameHTTPPrefix) {
		if spec.HTTPGet == nil {
			return Check{}, fmt.Errorf("the check %s has no request", spec.Name)
		}
		return HTTP(spec.Name, spec.HTTPGet, env.Dialer())
	}
	for _, c := range Builtin(env) {
		if c.Name == spec.Name {
			return c, nil
		}
	}
	return Check{}, fmt.Errorf("this agent does not know the check %q", spec.Name)
}

// All returns one check that passes if all its parts pass. Each part has its own runner and time limit, so that a part
// that hangs does not hide the results of the others. If all parts run in the background, All does, with the shortest
// period.
func All(name string, parts []Check) Check {
	if len(parts) == 1 {
		return parts[0]
	}
	all := Check{Name: name, Period: parts[0].Period}
	runners := make([]*Runner, len(parts))
	for i, part := range parts {
		all.Period = min(all.Period, part.Period)
		part.Period = 0
		runners[i] = NewRunner(part)
		all.Timeout = max(all.Timeout, runners[i].check.Timeout)
	}
	all.Timeout += all.Timeout / 10 // the parts' runners time out first and say which part is late
	all.Late = func(reason string) Result {
		results := make([]Result, len(runners))
		for i, r := range runners {
			results[i] = r.check.late(reason)
		}
		return combine(results)
	}
	all.Run = func(ctx context.Context) Result {
		results := make([]Result, len(runners))
		var wait sync.WaitGroup
		for i, r := range runners {
			wait.Go(func() { results[i] = r.Do(ctx).Result })
		}
		wait.Wait()
		return combine(results)
	}
	all.Instant = func() (Result, bool) {
		results := make([]Result, len(runners))
		for i, r := range runners {
			o, ok := r.Instant()
			if !ok {
				return Result{}, false
			}
			results[i] = o.Result
		}
		return combine(results), true
	}
	return all
}

// combine returns one result: with the reasons of all failures, or else of all checks that failed open, each once.
func combine(results []Result) Result {
	sum := Pass()
	var failed, open []string
	add := func(list []string, s string) []string {
		if slices.Contains(list, s) {
			return list
		}
		return append(list, s)
	}
	for _, r := range results {
		sum.Misconfigured = sum.Misconfigured || r.Misconfigured
		switch {
		case !r.Passed:
			sum.Passed = false
			failed = add(failed, r.Reason)
		case r.FailOpen != "":
			open = add(open, r.FailOpen)
		}
	}
	if !sum.Passed {
		sum.Reason = oneLine(strings.Join(failed, "; "))
	} else if len(open) > 0 {
		sum.FailOpen = oneLine(strings.Join(open, "; "))
	}
	return sum
}
