// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Suite is an immutable set of checks by name.
type Suite struct {
	groups   map[string]*Group
	known    map[string]*Runner // by Check.Identity
	defaults []string
}

// Group is what one name in a request runs: a check, or all checks of this name if several rules configure it.
type Group struct {
	// Name is safe as the label of a metric, unlike the name in the request.
	Name    string
	runners []*Runner
	absent  bool // no rule in force defines the check: node_ready runs instead
}

// NewSuite returns a suite of the checks that rules configure, and of others. If several rules configure a check of the
// same name, all of them must pass. Of the others, only the first one of each name counts, and none if a rule
// configures that name. One of them is node_ready. A check of a rule that only has a name runs what Group returns.
//
// The suite takes over the runners of before, which may be nil. Otherwise a change of any rule would forget the results
// of slow checks, and start one more run beside each one that hangs.
func NewSuite(before *Suite, ofRules []Check, others ...Check) *Suite {
	s := &Suite{groups: make(map[string]*Group, len(ofRules)+len(others)), known: map[string]*Runner{}}
	for _, c := range ofRules {
		if !slices.Contains(s.defaults, c.Name) {
			s.defaults = append(s.defaults, c.Name)
		}
		if c.Run == nil && c.Instant == nil {
			continue
		}
		if s.groups[c.Name] == nil {
			s.groups[c.Name] = &Group{Name: c.Name}
		}
		g := s.groups[c.Name]
		if r := s.runner(before, c); !slices.Contains(g.runners, r) {
			g.runners = append(g.runners, r)
		}
	}
	for _, c := range others {
		if s.groups[c.Name] == nil {
			s.groups[c.Name] = &Group{Name: c.Name, runners: []*Runner{s.runner(before, c)}}
		}
	}
	if len(s.defaults) == 0 {
		s.defaults = []string{NameNodeReady}
	}
	return s
}

// runner returns the runner of the check in before, or a new one.
func (s *Suite) runner(before *Suite, c Check) *Runner {
	if c.Identity == "" {
		return NewRunner(c)
	}
	if s.known[c.Identity] == nil && before != nil {
		s.known[c.Identity] = before.known[c.Identity]
	}
	if s.known[c.Identity] == nil {
		s.known[c.Identity] = NewRunner(c)
	}
	return s.known[c.Identity]
}

// Group returns what the name runs, or nil if the suite has no check of that name. If no rule in force defines
// http:<name> or rule:<name>, the rule may be in dry-run or deleted, which is not a fault of the node. The group then
// runs node_ready instead and marks a pass as fail-open.
func (s *Suite) Group(name string) *Group {
	if g := s.groups[name]; g != nil {
		return g
	}
	for _, prefix := range []string{NameHTTPPrefix, NameRulePrefix} {
		if strings.HasPrefix(name, prefix) {
			return &Group{Name: prefix + "*", runners: s.groups[NameNodeReady].runners, absent: true}
		}
	}
	return nil
}

// Defaults returns the names of the checks of requests that name none: those that rules configure, in the order of the
// rules, or else node_ready. Do not change the slice.
func (s *Suite) Defaults() []string { return s.defaults }

// Run runs the background checks until ctx ends.
func (s *Suite) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, g := range s.groups {
		for _, r := range g.runners {
			all.Go(func() { r.Background(ctx) })
		}
	}
	all.Wait()
}

// Instant returns the result if it is in memory.
func (g *Group) Instant() (Outcome, bool) {
	outcomes := make([]Outcome, len(g.runners))
	for i, r := range g.runners {
		var ok bool
		if outcomes[i], ok = r.Instant(); !ok {
			return Outcome{}, false
		}
	}
	return g.combine(outcomes), true
}

// Do runs the checks in parallel. Each has its own runner and time limit, so that one that hangs does not hide the
// results of the others.
func (g *Group) Do(ctx context.Context) Outcome {
	outcomes := make([]Outcome, len(g.runners))
	var all sync.WaitGroup
	for i, r := range g.runners {
		all.Go(func() { outcomes[i] = r.Do(ctx) })
	}
	all.Wait()
	return g.combine(outcomes)
}

func (g *Group) combine(outcomes []Outcome) Outcome {
	sum := outcomes[0]
	if len(outcomes) > 1 {
		results := make([]Result, len(outcomes))
		for i, o := range outcomes {
			results[i] = o.Result
			sum.Duration = max(sum.Duration, o.Duration)
		}
		sum.Result = combine(results)
	}
	if g.absent && sum.Passed {
		sum.FailOpen = "no rule in force defines this check: node_ready decides"
	}
	return sum
}

// combine returns one result: with the reasons of all failures, or else of all checks that failed open, each once.
func combine(results []Result) Result {
	sum := Pass()
	var failed, open []string
	for _, r := range results {
		sum.Misconfigured = sum.Misconfigured || r.Misconfigured
		switch {
		case !r.Passed && !slices.Contains(failed, r.Reason):
			failed = append(failed, r.Reason)
		case r.Passed && r.FailOpen != "" && !slices.Contains(open, r.FailOpen):
			open = append(open, r.FailOpen)
		}
	}
	switch {
	case len(failed) > 0:
		sum.Passed, sum.Reason = false, oneLine(strings.Join(failed, "; "))
	case len(open) > 0:
		sum.FailOpen = oneLine(strings.Join(open, "; "))
	}
	return sum
}
