// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// Environment has what all checks have in common.
type Environment struct {
	// Node provides the agent's own node; nil if the agent does not know its name.
	Node NodeSource
	// HostRoot is where the node's root directory is mounted; empty means /.
	HostRoot string
	// WriteRoot is below which directory filesystem_ro finds the directories to write to; empty means HostRoot.
	WriteRoot string
	// NoHostRoot reports that the node's root directory is not mounted: checks of the node's files are misconfigured.
	NoHostRoot bool
	// AllowRemote lets checks of rules connect to addresses of other machines.
	AllowRemote bool
	// Mounts is the memory of filesystem_ro; nil: each check has its own.
	Mounts *Mounts
}

// Builtin returns the checks that need no parameters, with default parameters.
func Builtin(env Environment) []Check {
	return []Check{
		NodeReady(env.Node),
		OKDRouter(),
		env.ofFiles(FilesystemRO(env, nil, 0)),
		Kubelet(),
		env.ofFiles(ContainerRuntime(env.HostRoot, nil)),
		env.ofFiles(DiskPressure(env.HostRoot, nil)),
		Network(nil),
		CustomConditions(env.Node, nil, nil),
		Rules(env.Node, nil),
		Schedulable(env.Node),
	}
}

// HostPath returns the path of a node's file in this process. It resolves the node's symbolic links below hostRoot,
// also absolute ones. The kernel would follow these to the agent's own files.
func HostPath(hostRoot, path string) (string, error) {
	if hostRoot == "" || hostRoot == "/" {
		return path, nil
	}
	joined, err := securejoin.SecureJoin(hostRoot, path)
	return joined, reason(err)
}

// ErrNoHostRoot is the error of checks of the node's files without a host root.
var ErrNoHostRoot = errors.New("the agent does not see the node's files: --host-root is none")

// ofFiles returns a check of the node's files, or a misconfigured check if the agent does not see them. Checking the
// agent's own files would always pass, or always fail.
func (env Environment) ofFiles(c Check) Check {
	if !env.NoHostRoot {
		return c
	}
	misconfigured := func() (Result, bool) { return Misconfigured(ErrNoHostRoot.Error()), true }
	return Check{
		Name:    c.Name,
		Instant: misconfigured,
		Run:     func(context.Context) Result { r, _ := misconfigured(); return r },
	}
}

// Suite is an immutable set of checks by name.
type Suite struct {
	runners  map[string]*Runner
	absent   map[string]*Runner // by prefix
	defaults []string
}

// NewSuite returns a suite of the checks. If two have the same name, the later one counts. defaults are the checks of
// requests that name none, in this order; without any, it is node_ready.
func NewSuite(defaults []string, all ...Check) *Suite {
	if len(defaults) == 0 {
		defaults = []string{NameNodeReady}
	}
	s := &Suite{runners: make(map[string]*Runner, len(all)), absent: map[string]*Runner{}, defaults: defaults}
	for _, c := range all {
		s.runners[c.Name] = NewRunner(c)
	}
	if ready := s.runners[NameNodeReady]; ready != nil {
		for _, prefix := range []string{NameHTTPPrefix, NameRulePrefix} {
			s.absent[prefix] = NewRunner(absent(prefix, ready.check))
		}
	}
	return s
}

// Runner returns the runner of the check, or nil if the suite has no check of that name. If no rule in force defines
// http:<name> or rule:<name>, the rule may be in dry-run or deleted, which is not a fault of the node. The runner then
// runs node_ready instead and marks a pass as fail-open.
func (s *Suite) Runner(name string) *Runner {
	if r := s.runners[name]; r != nil {
		return r
	}
	for _, prefix := range []string{NameHTTPPrefix, NameRulePrefix} {
		if strings.HasPrefix(name, prefix) {
			return s.absent[prefix]
		}
	}
	return nil
}

// absent returns the check for all names with a prefix that no rule defines. Its name is safe as the label of a metric.
func absent(prefix string, ready Check) Check {
	mark := func(r Result) Result {
		if r.Passed {
			r.FailOpen = "no rule in force defines this check: node_ready decides"
		}
		return r
	}
	c := ready
	c.Name = prefix + "*"
	c.Run = func(ctx context.Context) Result { return mark(ready.Run(ctx)) }
	c.Late = func(reason string) Result { return mark(ready.late(reason)) }
	c.Instant = func() (Result, bool) {
		if ready.Instant == nil {
			return Result{}, false
		}
		r, ok := ready.Instant()
		return mark(r), ok
	}
	return c
}

// Defaults returns the names of the checks of requests that name none. Do not change the slice.
func (s *Suite) Defaults() []string { return s.defaults }

// Names returns the names of all checks, sorted.
func (s *Suite) Names() []string { return slices.Sorted(maps.Keys(s.runners)) }

// Run runs the background checks until ctx ends.
func (s *Suite) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, r := range s.runners {
		all.Go(func() { r.Background(ctx) })
	}
	all.Wait()
}
