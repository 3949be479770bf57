// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model says what the documentation promises, as predicates over objects' JSON. It imports nothing of this
// module, so that it cannot repeat its mistakes. Where the documentation leaves a choice, a predicate says nothing.
package model

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// View is what a replica was shown when it made a write.
type View struct {
	// Process tells processes apart, also those of one replica; 0: at rest. Started is when it started,
	// or at a quiet moment the leader.
	Process int
	Started time.Time
	// Leader is the process that leads, at a quiet moment.
	Leader int
	// Now is the time.
	Now time.Time
	// Nodes are those of its cache, by name; Rules are those that its handler has heard of.
	Nodes, Rules map[string]Document
	// Looked are the nodes as its controller has looked at them last, by name: its cache may have newer versions.
	Looked map[string]Document
	// Leaving is whether its cache has lost nodes that its controller has not looked for since: they count still.
	Leaving bool
	// Claims are the NodeClaims as it last read them, by name.
	Claims map[string]Document
	// Evidence is that of its watches, by watch; a watch that has not listed is not among them.
	Evidence map[string][]Document
	// Blind is whether it could not list pods lately: old nodes may run some.
	Blind bool
	// Unlisted are the pods that could not be listed for this write, as watches name them.
	Unlisted map[string]bool
	// Unread is whether it could not read lately what serves rules.
	Unread bool
	// Rehearses is whether the rule that is judged is in dry-run: what its records say is not what it would do.
	Rehearses bool
	// Compiling is whether the rules of the process lack DaemonSets that it was shown.
	Compiling bool
	// Running are all pods that there are, and Sets all DaemonSets.
	Running, Sets []Document
	// Edited are the rules of which the process has heard more than one version since the last quiet moment, by UID.
	Edited map[string]bool
	// Versions are those of each rule that the process has heard of since then, by UID. Stopped is the evidence of watches
	// that have stopped since then.
	Versions map[string][]Document
	Stopped  map[string][]Document
	// Pruned are the rules that it was shown without fields that the CRD lacks, or whole again, by UID.
	Pruned map[string]bool
	// Foreign is whether it was told that the CRD is a foreign one.
	Foreign bool
	// Refused are the nodes, by name, of which a policy refuses all writes.
	Refused map[string]bool
	// Others is what it has read of another controller's rules; nil where there is none.
	Others *Others

	beside *beside
	known  *reading
}

// reading is what was read of a view, and of copies of it with other times.
type reading struct {
	nodes  []*node // in the order of their names
	rules  []*rule
	frozen map[*rule]string // why they are frozen, as far as that was asked
}

func (v *View) reading() *reading {
	if v.known == nil {
		v.known = &reading{frozen: map[*rule]string{}}
	}
	return v.known
}

// Predicates are all predicates. One that is never decisive in many stories is not tested.
var Predicates = []string{"admission", "admits", "announced", "binds", "blamed", "booting", "bounded", "closed",
	"completes", "denies", "domains", "evicted", "evicts", "first", "frees", "frozen", "gone", "keeps", "labelled",
	"lapsed", "lasts", "left", "lifted", "limit", "listed", "marked", "marker", "moved", "opened", "ours", "overruled",
	"passes", "places", "published", "rate", "reached", "rehearsed", "replaces", "results", "returned", "room", "roomless",
	"served", "single", "spared", "spares", "stands", "status", "stays", "taints", "theirs", "told", "turn", "unarmed",
	"unguards", "value", "watched", "windows"}

// Model judges a story.
type Model struct {
	// Failure is the first violation; empty if there is none.
	Failure string
	// Decisive counts how often each predicate had something to say.
	Decisive map[string]int
	// Fields are the fields, and values of enums, of rules that were valid, in force, and selected a node.
	Fields map[string]bool
	// Starts is how many starts of nodes the operator may have counted at the end, by rule. A rule that was created again
	// under the same name is not among them.
	Starts map[string]int

	// Unguarded is whether no policy protects records: then the taint of a rule that is gone stays.
	Unguarded bool
	// Webhooks is whether the webhooks are installed: then the operator may list all DaemonSets.
	Webhooks bool
	// Skewed reports whether the clock of a node is wrong.
	Skewed func(name string) bool

	kept     keptEndpoints
	replaced time.Time  // when another CRD was served last
	sets     []Document // the DaemonSets, and since when there are no others
	setsAt   time.Time
	beside   beside
	leader   int       // the process that led at the last quiet moment
	leads    time.Time // the first quiet moment at which it did

	now   func() time.Time
	nodes map[string]*nodeHistory // by UID
	rules map[string]*ruleHistory // by UID
}

type nodeHistory struct {
	boot      time.Time           // by the node's clock; zero: it has not rebooted
	booted    time.Time           // by ours
	found     time.Time           // the first quiet moment since: the operator has seen the boot
	bootID    string              // after it
	setBack   bool                // the node's clock was set back since
	admitted  map[string][]string // rules that claimed a taint when the node was created
	odd       bool                // a reporter has written a time of long ago, or far ahead
	foreign   map[string]bool     // taints that others put there
	occupied  bool                // pods ran there at a write of a replica: it may be in service by its age
	evicts    time.Time           // when it last had a NoExecute taint
	gone      bool                // it was deleted
	full      bool                // its annotations have had little room
	filled    bool                // by someone who has filled them
	tampered  bool                // an administrator has changed its records
	marks     map[string]bool     // for replacement, that others have written
	guarded   bool                // a guard was active: evictions may have been denied
	guardedAt time.Time           // when a guard began last
	last      *node
	rules     map[string]*underRule // by UID
	marker    map[string]int        // the process that made a published condition False, by type
	markedAt  map[string]domains    // of the node when a condition of a type became False
}

// underRule is what has become of a node under one rule.
type underRule struct {
	opened  bool    // since birth or the last boot
	reborn  bool    // it was in service when the node rebooted, and the rule re-arms
	found   bool    // the first process that recorded the last boot has started after it
	perhaps bool    // it may be opened: the rule was edited, or it is open whether it held
	settled int64   // the claim used the limit at a quiet moment, under this generation of the rule
	served  bool    // claimed while in service by its age and its pods
	used    bool    // the claim used the limit
	forced  bool    // the claim was made for an override, or on a cordoned node, and has no place under the limit
	granted bool    // it was, and got a place
	before  bool    // the claim is from before the rule had a limit
	free    bool    // the claim was made while the node was cordoned
	adopted bool    // the taint was there before: the node may be new to the rule
	busy    bool    // it was busy when existingNodes: Idle was decided
	seen    bool    // its record had a boot ID before the last boot
	records int     // how often a record of the rule was removed
	claimer int     // the process that claimed
	at      domains // of the node when it was claimed
	version int64   // the generation of the rule then

	observed   observed
	claimed    time.Time // when the process that claimed the node last decided that
	claimedAt  time.Time // when that was written
	passed     time.Time // when a timeout let it pass
	overridden time.Time // when it last was, as far as the model has looked
	unheld     time.Time // when the rule last held, or could not be judged, before it was edited
	unmatched  bool      // the rule has not selected it in the meantime
	waits      int       // the process that was at rest while the node waited for the limit
	waited     time.Time // since when it had not been ready then
	waitsIn    domains   // its domains then
	roomy      bool      // their limits had room then
	failed     time.Time // when a write that was about the node has failed
}

func (h *nodeHistory) under(uid string) *underRule {
	if h.rules[uid] == nil {
		h.rules[uid] = &underRule{}
	}
	return h.rules[uid]
}

// edit is when a rule was edited, and its generation since then.
type edit struct {
	at time.Time
	in int64
}

// resumption is when a rule was put in force again, while its status says that it is in force since another time: the
// operator may not have seen that it was not.
type resumption struct{ told, at time.Time }

type ruleHistory struct {
	inForce map[int64]time.Time // by generation: since when, by the API server's clock
	taints  map[string]bool     // that it ever asked for
	watches map[string]bool     // of evidence, that it ever asked for
	types   map[string]bool     // of conditions, that it ever published
	handed  map[string]handOver // by the UID of the node
	ready   time.Time           // when a node last became ready that was not before
	last    *rule
	edited  time.Time // when more than its timeout and its limit was edited last
	reread  edit      // the last edit of its evidence
	gone    bool      // it was deleted without a finalizer
	removed time.Time // when its finalizer was removed; admission may claim a moment longer
	full    bool      // it has selected a node whose annotations have had little room
	resumed resumption
	places  []place // of deleted nodes, since the last edit
	fields  int64   // the generation of which the fields were noted
	// times are when nodes in service were claimed, or marked, since the limits were edited.
	times map[string][]time.Time
}

// New is the model of a story that starts.
func New(now func() time.Time) *Model {
	return &Model{Decisive: map[string]int{}, Fields: map[string]bool{}, now: now,
		Skewed: func(string) bool { return false }, nodes: map[string]*nodeHistory{}, rules: map[string]*ruleHistory{},
		kept:   keptEndpoints{links: map[string]*link{}, armed: map[string]time.Time{}},
		beside: beside{taints: map[string]bool{}, frozen: map[string]bool{}, put: map[string]time.Time{}}}
}

// Fail notes a violation.
func (m *Model) Fail(predicate, text string) {
	if m.Failure == "" {
		m.Failure = fmt.Sprintf("%s: %s (at %s)", predicate, text, m.now().Format(time.TimeOnly))
	}
}

// check counts a predicate, and fails the story where it does not hold.
func (m *Model) check(predicate string, ok bool, format string, args ...any) {
	m.Decisive[predicate]++
	if !ok {
		m.Fail(predicate, fmt.Sprintf(format, args...))
	}
}

// Boot notes that a node has rebooted, by its own clock.
func (m *Model) Boot(uid, bootID string, at time.Time) {
	h := m.node(uid)
	h.boot, h.booted, h.bootID, h.found, h.setBack = at, m.now(), bootID, time.Time{}, false
	h.full = h.full || len(bootID) > 64 // its record does not show it
	for id, r := range m.rules {
		if r.last.Spec.rearms() {
			u := h.under(id)
			u.reborn = u.opened || u.served
			u.opened, u.served, u.found = false, false, false
		}
		h.under(id).seen = h.under(id).seen || h.last != nil && h.last.record(id).BootID != ""
	}
}

// SetBack notes that the clock of a node is set back: what happens from now on may have a time before the last boot.
func (m *Model) SetBack(uid string) { m.node(uid).setBack = true }

func (m *Model) node(uid string) *nodeHistory {
	if m.nodes[uid] == nil {
		m.nodes[uid] = &nodeHistory{foreign: map[string]bool{}, admitted: map[string][]string{},
			rules: map[string]*underRule{}, marker: map[string]int{}}
	}
	return m.nodes[uid]
}

// Actor notes what a node is like after another client than the operator wrote it.
func (m *Model) Actor(d Document) {
	n := read[node](d)
	if n == nil {
		return
	}
	h := m.node(n.Metadata.UID)
	m.puts(h.last, n)
	claimed := map[string]bool{}
	for uid := range m.rules {
		claimed[n.claim(uid)] = true
	}
	for _, t := range n.Spec.Taints {
		if !claimed[t.id()] && (h.last == nil || !h.last.has(t.id())) ||
			h.last != nil && h.last.has(t.id()) && !slices.Contains(h.last.Spec.Taints, t) || h.last.lost(n, t) {
			h.foreign[t.id()] = true
		}
	}
	for uid := range m.rules {
		if claim := n.claim(uid); claim != "" && h.last == nil {
			h.admitted[claim] = append(h.admitted[claim], uid)
		}
	}
	for id := range h.foreign {
		if !n.has(id) {
			delete(h.foreign, id)
		}
	}
	if n.evicts() || h.last != nil && h.last.evicts() {
		h.evicts = m.now()
	}
	h.last = n
}

// lost reports whether the node had lost a taint that a record claims, and someone has put it back with another value.
func (n *node) lost(now *node, t taint) bool {
	return n != nil && !n.has(t.id()) && n.claims()[t.id()] && !now.claimsValue(t)
}

// Gone notes that a rule is deleted at once, since no replica has given it a finalizer yet.
func (m *Model) Gone(d Document) {
	if h := m.rules[read[rule](d).Metadata.UID]; h != nil {
		h.gone = true
	}
}

// RuleWritten notes what a rule is like after a user wrote it.
func (m *Model) RuleWritten(d Document) {
	r := read[rule](d)
	if r == nil {
		return
	}
	h := m.rules[r.Metadata.UID]
	now := m.now().Truncate(time.Second)
	if h == nil {
		h = &ruleHistory{inForce: map[int64]time.Time{}, taints: map[string]bool{}, watches: map[string]bool{},
			types: map[string]bool{}, handed: map[string]handOver{}, times: map[string][]time.Time{}}
		m.rules[r.Metadata.UID] = h
	}
	if _, known := h.inForce[r.Metadata.Generation]; !known {
		since := now
		if before := h.last; before != nil && before.Spec.enforced() &&
			before.Spec.NodeSelector.String() == r.Spec.NodeSelector.String() {
			since = h.inForce[before.Metadata.Generation]
		}
		h.inForce[r.Metadata.Generation], h.places = since, nil
		if told := r.Status.InForce.StartTime; h.last != nil && !told.IsZero() &&
			r.Status.ObservedGeneration < h.last.Metadata.Generation {
			h.resumed = resumption{told, now}
		}
	}
	if h.last != nil && h.last.edits(r) {
		h.edited = m.now()
	}
	if h.last != nil && !h.last.Spec.requiresAs(&r.Spec) {
		h.reread = edit{m.now(), r.Metadata.Generation}
	}
	if h.last != nil && !reflect.DeepEqual(h.last.Spec.limits(), r.Spec.limits()) {
		h.times = map[string][]time.Time{}
	}
	m.disarms(h.last, r)
	m.kept.longest = max(m.kept.longest, r.Spec.endpointsHold())
	h.taints[r.Spec.Taint.id()] = true
	if t := r.Spec.Publish.ConditionType; t != "" {
		h.types[t] = true
	}
	for i := range r.Spec.Requirements {
		for _, w := range r.Spec.Requirements[i].needs {
			h.watches[w.key] = h.watches[w.key] || w.labels.valid()
		}
	}
	h.last = r
}

// edits reports whether a later version of a rule differs in more than its timeout and its limit.
func (r *rule) edits(to *rule) bool {
	was, is := r.Spec, to.Spec
	begins := (was.Timeout.Seconds > 0) != (is.Timeout.Seconds > 0)
	was.Timeout, was.MaxUnavailable = is.Timeout, is.MaxUnavailable
	return begins || !reflect.DeepEqual(was, is)
}

// unseen reports whether a node was created before a rule was put in force again, and is new for an operator that has
// not seen that.
func (h *ruleHistory) unseen(n *node, since time.Time) bool {
	return !since.After(h.resumed.at) && !n.Metadata.CreationTimestamp.Before(h.resumed.told)
}

// inService says whether a node is in service under a rule as a replica was shown it, by the history alone.
func (m *Model) inService(n *node, r *rule) answer {
	h, rh := m.node(n.Metadata.UID), m.rules[r.Metadata.UID]
	if u := h.under(r.Metadata.UID); u.opened || u.served {
		return yes
	}
	if rh == nil || r.Spec.rearms() && !h.boot.IsZero() || h.under(r.Metadata.UID).adopted {
		return unknown
	}
	since, ok := rh.inForce[r.Metadata.Generation]
	free := n.claim(r.Metadata.UID) == "" && !n.has(r.Spec.Taint.id())
	if ok && n.Metadata.CreationTimestamp.Before(since) && !rh.unseen(n, since) && (free || len(rh.inForce) == 1 &&
		!h.foreign[r.Spec.Taint.id()]) {
		return yes
	}
	return unknown
}
