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

// Environment is what checks are made from beside their parameters.
type Environment struct {
	// Node tells about the agent's own node; nil where the agent does not know its name.
	Node NodeSource
	// HostRoot is where the node's root directory is mounted; empty means /.
	HostRoot string
	// WriteRoot is where those of the node's directories are mounted that filesystem_ro may write to; empty means
	// HostRoot.
	WriteRoot string
	// NoHostRoot is true where it is not mounted: what looks at the node's files cannot work, and says so.
	NoHostRoot bool
	// AllowRemote lets checks that users configure connect to other than this node's addresses.
	AllowRemote bool
	// Mounts is what filesystem_ro remembers; nil for a memory of each check's own.
	Mounts *Mounts
}

// Builtin returns every check that needs no parameters, with the defaults of those that take some.
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

// HostPath returns where this process finds a path of the node. Links of the node, also absolute ones, lead to where
// they lead on the node: followed as they are, they would lead into the agent's own files.
func HostPath(hostRoot, path string) (string, error) {
	if hostRoot == "" || hostRoot == "/" {
		return path, nil
	}
	joined, err := securejoin.SecureJoin(hostRoot, path)
	return joined, reason(err)
}

// ErrNoHostRoot is why what looks at the node's files cannot work.
var ErrNoHostRoot = errors.New("the agent does not see the node's files: --host-root is none")

// ofFiles is a check of the node's files, where the agent sees them. Looking at its own instead would always pass, or
// never.
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

// Suite is a set of checks that can be asked for by name. It is not changed once it is made.
type Suite struct {
	runners  map[string]*Runner
	absent   map[string]*Runner // by prefix
	defaults []string
}

// NewSuite returns a suite of the checks; of two with one name the later counts. defaults are the names of those that
// run when none is asked for, in this order; without any it is node_ready.
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

// absent returns the check of all names with a prefix that no rule gives. Its own name is safe as the label of a
// metric.
func absent(prefix string, ready Check) Check {
	mark := func(r Result) Result {
		if r.Passed {
			r.FailOpen = "no rule in force gives this check, node_ready is judged in its place"
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

// Defaults are the names of the checks that run when none is asked for. The slice must not be changed.
func (s *Suite) Defaults() []string { return s.defaults }

// Names are the names of all checks, sorted.
func (s *Suite) Names() []string { return slices.Sorted(maps.Keys(s.runners)) }

// Run runs the background checks until ctx ends.
func (s *Suite) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, r := range s.runners {
		all.Go(func() { r.Background(ctx) })
	}
	all.Wait()
}
