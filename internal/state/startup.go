// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"github.com/nodegate/nodegate/internal/nodeview"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Startup is the state of a node's start under a rule. A start begins with the node's creation, and ends once:
//
//	           evidence holds
//	         ┌───────────────► Ready      released is in the record
//	Starting │ timeout ends
//	─────────┼───────────────► TimedOut   timedOut is in the record
//	         │ override, late
//	         └───────────────► Excluded   counted is in the record
//
// A node is late if it is older than ServiceAge when the rule begins to match it. A reboot does not end a start: then
// the record has the field starting until the node is released.
//
// The patch that ends a start also writes the end into the record, so that no other leader counts the start again.
type Startup string

// The states of a start. NotStarting: the node existed before the rule, its start has ended, or the rule is not in
// force or holds no nodes.
const (
	NotStarting Startup = ""
	Starting    Startup = "starting"
	Ready       Startup = "ready"
	TimedOut    Startup = "timed_out"
	Excluded    Startup = "excluded"
)

// Holds reports whether a rule holds nodes that are starting.
func Holds(rule *ruleset.Rule) bool { return rule.Taint != nil || rule.HoldsByVerdict() }

// start updates the node's start after a transition.
func (n *subject) start(m move) {
	if !n.starting() {
		return
	}
	switch {
	case n.adds() && (n.Override.Action != nodeview.OverrideNone || n.late()):
		n.d.Startup = Excluded
		n.rec.Counted = !m.opens() || n.rec.Released.IsZero() // released says it as well
	case n.d.TimedOut:
		n.d.Startup = TimedOut
	case m.opens():
		n.d.Startup = Ready
	default:
		n.d.Startup = Starting
		n.objective()
		return
	}
	n.rec.Missed = false
}

// starting reports whether the node's start has not ended before this decision.
func (n *subject) starting() bool {
	was := &n.State
	return Holds(n.Rule) && n.Rule.Mode == ruleset.Enforced && !was.Existing && !was.Completed &&
		!was.Record.Started() && (n.adds() || was.HasRecord)
}

// late reports whether the node has just come to match the rule, and is too old for a start.
func (n *subject) late() bool {
	was := &n.State
	claimed := was.HasRecord && (!was.Record.Late || !was.Record.Since.IsZero())
	return !claimed && n.Now.Sub(n.Node.CreationTimestamp.Time) > nodeview.ServiceAge
}

// objective records that the node has missed the startup objective.
func (n *subject) objective() {
	if n.Objective <= 0 || n.rec.Missed || !n.adds() {
		return
	}
	due := n.Node.CreationTimestamp.Add(n.Objective)
	n.recheck(due)
	n.rec.Missed = !n.Now.Before(due)
}
