// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/readiness"
	"github.com/nodegate/nodegate/internal/replace"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/text"
)

// same reports whether a status would say the same about the node of an entry.
func (s *stored) same(e *Entry) bool {
	return s.Outcome == e.Outcome && slices.Equal(s.Results, e.Results) && slices.Equal(s.Requirements, e.Requirements)
}

var seed = maphash.MakeSeed()

// hash is equal for entries that are the same.
func (e *Entry) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, e.Outcome)
	for _, r := range e.Results {
		maphash.WriteComparable(&h, r)
	}
	for _, r := range e.Requirements {
		maphash.WriteComparable(&h, r)
	}
	return h.Sum64()
}

// none is the index of no outcome: the rule does not concern the node.
const none = 0

// pair is the state of one node under one rule: 32 bytes, without pointers for the garbage collector to follow.
type pair struct {
	since, refreshed int64 // of the observation, in nanoseconds; 0: zero
	changed          uint32
	outcome          uint32
	seen             seen // of the observation
	heartbeat        bool // a heartbeat alone may change the verdict
	released         bool // the node is in service
	firstReady       bool // the node was new under the rule, and became ready
	expired          bool // the node waits for its replacement
	limit.Node            // what the limit counts of it
}

// seen has the flags of an observation as bits.
type seen uint8

const (
	seenReady seen = 1 << iota
	seenWatched
	seenTurned
	seenAssumed
	seenUnread
	seenUnarmed
)

func seenOf(o *readiness.Observed) seen {
	var bits seen
	for i, flag := range [...]bool{o.Ready, o.Watched, o.Turned, o.Assumed, o.Unread, o.Unarmed} {
		if flag {
			bits |= 1 << i
		}
	}
	return bits
}

func (p *pair) observed() readiness.Observed {
	return readiness.Observed{Since: moment(p.since), Refreshed: moment(p.refreshed), Ready: p.seen&seenReady != 0,
		Watched: p.seen&seenWatched != 0, Turned: p.seen&seenTurned != 0, Assumed: p.seen&seenAssumed != 0,
		Unread: p.seen&seenUnread != 0, Unarmed: p.seen&seenUnarmed != 0}
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// stored is an outcome, and the number of nodes that have it.
type stored struct {
	Outcome
	Missing
	nodes int
	cause string
	hash  uint64
}

// ruleState is the state of all nodes under one rule.
type ruleState struct {
	rule     *ruleset.Rule
	nodes    *nodes
	pairs    []pair // by the node's number; nodes beyond its end have no pair yet
	outcomes []stored
	unused   []uint32
	byHash   map[uint64]uint32
	pending  map[int32]struct{} // the nodes that were not evaluated by this version of the rule
	limit    *limit.Limit
	now      func() time.Time
	// held maps the nodes that the rule holds to the start of the hold, in seconds since 1970.
	held map[int32]uint32
	// readyAt is when a node last became ready for the first time, of a rule that replaces nodes.
	readyAt time.Time
	pass    int  // the last Record that had an entry for the rule
	told    bool // RuleChanged was called, and Rule was not called since
}

func newRuleState(rule *ruleset.Rule, f *Fleet) *ruleState {
	return &ruleState{rule: rule, nodes: &f.nodes, pairs: make([]pair, len(f.names)), outcomes: make([]stored, 1),
		byHash: map[uint64]uint32{}, pending: map[int32]struct{}{}, limit: newLimit(rule, &f.nodes), now: f.now,
		held: map[int32]uint32{}}
}

// at returns the pair of a node; the state may be nil.
func (s *ruleState) at(n int32) pair {
	if s == nil || int(n) >= len(s.pairs) {
		return pair{}
	}
	return s.pairs[n]
}

// concerned marks the nodes that the rule concerns.
func (s *ruleState) concerned(affected []bool) {
	for n := range s.pairs {
		if s.pairs[n].outcome != none {
			affected[n] = true
		}
	}
}

// put replaces the entry of a node, or removes it with nil. The version is that of the node that was decided about. It
// reports whether the rule's status may have changed.
func (s *ruleState) put(n int32, version string, e *Entry, fresh bool, now time.Time) bool {
	before := s.at(n)
	if before.outcome == none && e == nil {
		s.settle(n, version, nil, now)
		return false
	}
	var after pair
	same := false
	if e != nil {
		e.complete()
		after = pair{
			since: nanos(e.Observed.Since), refreshed: nanos(e.Observed.Refreshed), seen: seenOf(&e.Observed),
			heartbeat: e.HeartbeatCounts, released: e.Current.Released, firstReady: e.firstReady(), expired: e.Expired,
			changed: uint32(s.now().Unix()), //nolint:gosec // until 2106
			Node:    e.counts(),
		}
		if at := replace.ReadyAt(s.rule, e.Current); at.After(s.readyAt) {
			s.readyAt = at
		}
		same = before.outcome != none && s.outcomes[before.outcome].same(e)
		switch {
		case e.changed != 0:
			after.changed = e.changed
		case same && !fresh:
			after.changed = before.changed
		}
	}
	if fresh {
		s.limit.Delete(n, before.Node, s.now())
	}
	s.succeed(n, &before, e, fresh)
	_, looked := s.pending[n]
	if delete(s.pending, n); e != nil && e.pending {
		s.pending[n], looked = struct{}{}, false
	}
	switch {
	case same:
		after.outcome = before.outcome
	default:
		if e != nil {
			after.outcome = s.store(e)
		}
		s.drop(before.outcome)
	}
	moved := s.limit.Recount(n, before.Node, after.Node, e.domains()) // a rate then may allow another claim
	s.settle(n, version, e, now)
	s.hold(n, e, fresh, now)
	if missing := len(s.nodes.names) - len(s.pairs); int(n) >= len(s.pairs) {
		s.pairs = append(s.pairs, make([]pair, missing)...)
	}
	s.pairs[n] = after
	return !same || fresh || looked || moved || before.expired != after.expired ||
		before.Counted != after.Counted
}

// complete prepares an entry for being kept.
func (e *Entry) complete() {
	e.matches, e.Message = e.Current.Matches, text.Clip(e.Message, v1alpha1.MaxStatusMessage)
	e.PublishProblem = text.Clip(e.PublishProblem, v1alpha1.MaxStatusMessage)
	e.Unmarked = e.Unmarked && !e.unmarkable() // it could not use a turn under a rate, and would wait for one again
}

// domains returns the domains in which an entry counts, or "" for no entry.
func (e *Entry) domains() string {
	if e == nil {
		return ""
	}
	return e.Current.Domains
}

// hold stores the start of the hold: the time of the claim. The claim of an admission policy has no time. It was made
// at the node's creation, or just before the operator first saw it.
func (s *ruleState) hold(n int32, e *Entry, fresh bool, now time.Time) {
	if e == nil || !e.matches || !e.closed() {
		delete(s.held, n)
		return
	}
	current := e.Current
	switch _, known := s.held[n]; {
	case !current.Record.Since.IsZero():
		s.held[n] = uint32(current.Record.Since.Unix()) //nolint:gosec // until 2106
	case current.Claimed && !current.Record.Late:
		s.held[n] = s.nodes.created[n]
	case !known || fresh:
		s.held[n] = uint32(now.Unix()) //nolint:gosec // until 2106
	}
}

// store counts one more node for an outcome, and returns its index.
func (s *ruleState) store(e *Entry) uint32 {
	hash := e.hash()
	if i, ok := s.byHash[hash]; ok && s.outcomes[i].same(e) {
		s.outcomes[i].nodes++
		return i
	}
	fresh := stored{Outcome: e.Outcome, Missing: e.Missing, nodes: 1, cause: cause(e), hash: hash}
	var i uint32
	if last := len(s.unused) - 1; last >= 0 {
		i, s.unused = s.unused[last], s.unused[:last]
		s.outcomes[i] = fresh
	} else {
		i = uint32(len(s.outcomes)) //nolint:gosec // at most one for each node
		s.outcomes = append(s.outcomes, fresh)
	}
	s.byHash[hash] = i
	return i
}

// drop counts one node less for an outcome.
func (s *ruleState) drop(i uint32) {
	if i == none {
		return
	}
	o := &s.outcomes[i]
	if o.nodes--; o.nodes > 0 {
		return
	}
	if s.byHash[o.hash] == i {
		delete(s.byHash, o.hash)
	}
	*o = stored{}
	s.unused = append(s.unused, i)
}
