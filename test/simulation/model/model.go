// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model says what the documentation promises, as predicates over objects' JSON. It imports nothing of this
// module, so that it cannot repeat its mistakes. Where the documentation leaves a choice, a predicate says nothing.
package model

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// View is what a replica was shown when it made a write.
type View struct {
	// Process tells processes apart, also those of one replica; Started is when it started.
	Process int
	Started time.Time
	// Now is its time.
	Now time.Time
	// Nodes are those of its cache, by name; Rules are those that its handler has heard of.
	Nodes, Rules map[string]Document
	// Pods are those of its watches, by watch; a watch that has not listed is not among them.
	Pods map[string][]Document
	// Running are all pods that there are.
	Running []Document
	// Edited are the rules of which the process has heard more than one version, by UID.
	Edited map[string]bool
	// Pruned are the rules that it was shown without fields that the CRD lacks, or whole again, by UID.
	Pruned map[string]bool
	// Foreign is whether it was told that the CRD is a foreign one.
	Foreign bool
}

// Predicates are all predicates. One that is never decisive in many stories is not tested.
var Predicates = []string{"blamed", "booting", "closed", "completes", "evicted", "evicts", "frozen", "gone",
	"labelled", "left", "limit", "marked", "marker", "opened", "ours", "overruled", "published", "replaces", "room",
	"spared", "stands", "status", "taints", "watched"}

// Model judges a story.
type Model struct {
	// Failure is the first violation; empty if there is none.
	Failure string
	// Decisive counts how often each predicate had something to say.
	Decisive map[string]int
	// Starts is how many starts of nodes the operator may have counted at the end, by rule. A rule that was created again
	// under the same name is not among them.
	Starts map[string]int

	now   func() time.Time
	nodes map[string]*nodeHistory // by UID
	rules map[string]*ruleHistory // by UID
}

type nodeHistory struct {
	boot     time.Time       // by the node's clock; zero: it has not rebooted
	booted   time.Time       // by ours
	bootID   string          // after it
	foreign  map[string]bool // taints that others put there
	occupied bool            // pods ran there at a write of a replica: it may be in service by its age
	evicts   time.Time       // when it last had a NoExecute taint
	guarded  bool            // a guard was active: evictions may have been denied
	last     *node
	rules    map[string]*underRule // by UID
	marker   map[string]int        // the process that made a published condition False, by type
}

// underRule is what has become of a node under one rule.
type underRule struct {
	opened  bool // since birth or the last boot
	reborn  bool // it was in service when the node rebooted, and the rule re-arms
	found   bool // the first process that recorded the last boot has started after it
	perhaps bool // it may be opened: the rule was edited, or it is open whether it held
	served  bool // claimed while in service by its age and its pods
	used    bool // the claim used the limit
	forced  bool // the claim was made for an override
	busy    bool // it was busy when existingNodes: Idle was decided
	seen    bool // its record had a boot ID before the last boot
	records int  // how often a record of the rule was removed
	claimer int  // the process that claimed
}

func (h *nodeHistory) under(uid string) *underRule {
	if h.rules[uid] == nil {
		h.rules[uid] = &underRule{}
	}
	return h.rules[uid]
}

type ruleHistory struct {
	inForce map[int64]time.Time // by generation: since when, by the API server's clock
	taints  map[string]bool     // that it ever asked for
	watches map[string]bool     // of pods, that it ever asked for
	types   map[string]bool     // of conditions, that it ever published
	handed  map[string]handOver // by the UID of the node
	ready   time.Time           // when a node last became ready that was not before
	last    *rule
}

// New is the model of a story that starts.
func New(now func() time.Time) *Model {
	return &Model{Decisive: map[string]int{}, now: now, nodes: map[string]*nodeHistory{},
		rules: map[string]*ruleHistory{}}
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
	h.boot, h.booted, h.bootID = at, m.now(), bootID
	for uid, r := range m.rules {
		if r.last.Spec.rearms() {
			u := h.under(uid)
			u.reborn = u.opened || u.served
			u.opened, u.served, u.found = false, false, false
		}
		h.under(uid).seen = h.under(uid).seen || h.last != nil && h.last.record(uid).BootID != ""
	}
}

func (m *Model) node(uid string) *nodeHistory {
	if m.nodes[uid] == nil {
		m.nodes[uid] = &nodeHistory{foreign: map[string]bool{}, rules: map[string]*underRule{},
			marker: map[string]int{}}
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
	claimed := map[string]bool{}
	for key, value := range n.Metadata.Annotations {
		if strings.HasPrefix(key, recordPrefix) {
			claimed[claimIn(value)] = true
		}
	}
	for _, t := range n.Spec.Taints {
		if !claimed[t.id()] && (h.last == nil || !h.last.has(t.id())) {
			h.foreign[t.id()] = true
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
			types: map[string]bool{}, handed: map[string]handOver{}}
		m.rules[r.Metadata.UID] = h
	}
	if _, known := h.inForce[r.Metadata.Generation]; !known {
		since := now
		if before := h.last; before != nil && before.Spec.enforced() &&
			before.Spec.NodeSelector.String() == r.Spec.NodeSelector.String() {
			since = h.inForce[before.Metadata.Generation]
		}
		h.inForce[r.Metadata.Generation] = since
	}
	h.taints[r.Spec.Taint.id()] = true
	if t := r.Spec.Publish.ConditionType; t != "" {
		h.types[t] = true
	}
	for i := range r.Spec.Requirements {
		if p := r.Spec.Requirements[i].Pods; p != nil && p.Selector.valid() {
			h.watches[p.Namespace+"/"+p.Selector.String()] = true
		}
	}
	h.last = r
}

// inService says whether a node is in service under a rule as a replica was shown it, by the history alone.
func (m *Model) inService(n *node, r *rule) answer {
	h, rh := m.node(n.Metadata.UID), m.rules[r.Metadata.UID]
	if h.under(r.Metadata.UID).opened || h.under(r.Metadata.UID).served {
		return yes
	}
	if rh == nil || r.Spec.rearms() && !h.boot.IsZero() {
		return unknown
	}
	since, ok := rh.inForce[r.Metadata.Generation]
	if ok && n.Metadata.CreationTimestamp.Before(since) && len(rh.inForce) == 1 && !h.foreign[r.Spec.Taint.id()] {
		return yes
	}
	return unknown
}

// Move judges one write of a replica.
func (m *Model) Move(kind string, before, after Document, v *View) { //nolint:gocyclo // one predicate after the other
	if kind == "pods" {
		m.evicted(before, after)
	}
	if before == nil || after == nil {
		return
	}
	if kind == "nodereadinessrules" {
		m.intends(read[rule](before), read[rule](after), v)
	}
	if kind != "nodes" {
		return
	}
	was, is := read[node](before), read[node](after)
	shown := read[node](v.Nodes[was.Metadata.Name])
	h := m.node(was.Metadata.UID)
	h.occupied = h.occupied || v.busy(is)
	m.ours(was, is, shown)
	m.publishes(was, is, v)
	m.marksReplaced(was, is)
	m.swept(was, is, v)
	for _, d := range v.Rules {
		r := read[rule](d)
		m.frozen(was, is, r, v)
		m.stands(is, r, v)
		if m.rules[r.Metadata.UID] == nil || shown == nil {
			continue
		}
		had, has := was.claim(r.Metadata.UID), is.claim(r.Metadata.UID)
		if is.record(r.Metadata.UID).BootID == h.bootID && was.record(r.Metadata.UID).BootID != h.bootID {
			h.under(r.Metadata.UID).found = v.Started.After(h.booted)
		}
		switch {
		case had == "" && has != "":
			m.closed(shown, r, v)
			h.under(r.Metadata.UID).claimer, h.under(r.Metadata.UID).forced = v.Process, shown.override() == "Hold"
			h.last = is
			if !was.has(has) { // else it is adopted
				m.booting(shown, r, v)
				m.spared(shown, r, v)
				h.under(r.Metadata.UID).served = h.under(r.Metadata.UID).served || m.arrived(shown, r, v)
				h.under(r.Metadata.UID).used = m.limit(shown, r, v)
			}
		case had != "" && has == "":
			m.opened(shown, r, v)
		case has == "" && was.Metadata.Annotations[r.key()] == "" && is.Metadata.Annotations[r.key()] != "" &&
			r.Spec.ExistingNodes == "Idle" && m.holds(shown, r, v, true) == no:
			h.under(r.Metadata.UID).busy = v.busy(shown)
		}
		if has == "" {
			h.under(r.Metadata.UID).used = false
		}
		if !was.marked(r) && is.marked(r) {
			m.completes(was, shown, r, v)
		}
		if was.record(r.Metadata.UID).Released.IsZero() && !is.record(r.Metadata.UID).Released.IsZero() {
			m.rules[r.Metadata.UID].ready = m.now()
		}
		if was.Metadata.Annotations[r.key()] != "" && is.Metadata.Annotations[r.key()] == "" {
			h.under(r.Metadata.UID).records++
		}
		switch guards := !is.record(r.Metadata.UID).GuardedSince.IsZero(); {
		case guards:
			h.guarded = true
		case !was.record(r.Metadata.UID).GuardedSince.IsZero() && m.holds(shown, r, v, false) != no:
			h.guarded = false // the node has recovered: its pods stay
		}
		if !r.Spec.NodeSelector.matches(shown.Metadata.Labels) && is.record(r.Metadata.UID).Released.IsZero() {
			u := h.under(r.Metadata.UID) // whether a node that comes back is in service is open
			u.opened, u.served, u.reborn, u.busy = false, false, false, false
		}
		if has == "" && (had != "" || was.Metadata.Annotations[r.key()] != is.Metadata.Annotations[r.key()]) ||
			!was.marked(r) && is.marked(r) {
			if r.Spec.NodeSelector.matches(shown.Metadata.Labels) && shown.override() == "" {
				holds, u := m.holds(shown, r, v, true), h.under(r.Metadata.UID)
				u.opened, u.perhaps = u.opened || holds == yes, u.perhaps || holds == unknown
			}
		}
	}
	h.last = is
}

// swept notes that the record of a rule that is gone is removed: nothing is evicted for it.
func (m *Model) swept(was, is *node, v *View) {
	for key := range was.Metadata.Annotations {
		uid, ok := strings.CutPrefix(key, recordPrefix)
		if ok && is.Metadata.Annotations[key] == "" && !v.knows(uid) {
			m.node(is.Metadata.UID).guarded = false
		}
	}
}

func (v *View) knows(uid string) bool {
	for _, d := range v.Rules {
		if read[rule](d).Metadata.UID == uid {
			return true
		}
	}
	return false
}

// ours: a write changes taints of rules, records, markers and completion annotations, on the node that was read.
func (m *Model) ours(was, is, shown *node) {
	m.check("ours", shown != nil && shown.Metadata.UID == is.Metadata.UID, "node %s is another one than was read",
		is.Metadata.Name)
	asked := map[string]bool{}
	for _, h := range m.rules {
		for id := range h.taints {
			asked[id] = true
		}
	}
	for _, id := range difference(was.Spec.Taints, is.Spec.Taints) {
		m.check("ours", asked[id], "taint %s of node %s is of no rule", id, is.Metadata.Name)
	}
	for key := range union(was.Metadata.Annotations, is.Metadata.Annotations) {
		if was.Metadata.Annotations[key] != is.Metadata.Annotations[key] {
			m.check("ours", strings.HasPrefix(key, recordPrefix) || strings.HasPrefix(key, markerPrefix) ||
				strings.HasPrefix(key, replaced) || key == "example.com/completed",
				"annotation %s of node %s is changed", key, is.Metadata.Name)
		}
	}
	bare := func(n *node) node {
		other := *n
		other.Spec.Taints, other.Metadata.Annotations, other.Status.Conditions = nil, nil, nil
		return other
	}
	m.check("ours", reflect.DeepEqual(bare(was), bare(is)),
		"more than taints, annotations and conditions of node %s is changed", is.Metadata.Name)
}

// difference are the taints that only one of two lists has, or that they have with another value.
func difference(a, b []taint) []string {
	var out []string
	for _, t := range a {
		if !slices.Contains(b, t) {
			out = append(out, t.id())
		}
	}
	for _, t := range b {
		if !slices.Contains(a, t) {
			out = append(out, t.id())
		}
	}
	return out
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// frozen: nothing of a rule differs that cannot be judged.
func (m *Model) frozen(was, is *node, r *rule, v *View) {
	why := v.frozen(r)
	if why == "" || was.override() == "Release" && !v.Foreign { // it still takes the taint of a suspended rule off
		return
	}
	m.check("frozen", was.Metadata.Annotations[r.key()] == is.Metadata.Annotations[r.key()] &&
		was.marked(r) == is.marked(r),
		"the record of rule %s on node %s is changed although %s", r.Metadata.Name, is.Metadata.Name, why)
}

// stands: what a record claims is on the node.
func (m *Model) stands(is *node, r *rule, v *View) {
	claim := is.claim(r.Metadata.UID)
	if v.edited(r, 0) { // it may be frozen
		return
	}
	if claim == "" || !r.Spec.enforced() || r.Metadata.DeletionTimestamp != nil || v.frozen(r) != "" {
		return
	}
	m.check("stands", is.has(claim), "rule %s claims %s on node %s, which does not have it", r.Metadata.Name, claim,
		is.Metadata.Name)
}

// closed: a new claim has a cause in what the replica was shown.
func (m *Model) closed(shown *node, r *rule, v *View) {
	h := m.node(shown.Metadata.UID)
	name := shown.Metadata.Name
	m.check("closed", r.Metadata.DeletionTimestamp == nil && r.Spec.enforced(),
		"rule %s, which is not enforced, claims node %s", r.Metadata.Name, name)
	if v.edited(r, 0) {
		return
	}
	m.check("closed", r.Spec.NodeSelector.matches(shown.Metadata.Labels),
		"rule %s does not select node %s, and claims it", r.Metadata.Name, name)
	if shown.override() == "Hold" || r.Spec.rearms() && !h.boot.IsZero() && !h.under(r.Metadata.UID).opened {
		return
	}
	m.check("closed", shown.override() != "Release", "rule %s claims node %s in spite of the override",
		r.Metadata.Name, name)
	if r.Spec.Stabilization.ReadySeconds == 0 || m.inService(shown, r) == yes && !shown.has(r.Spec.Taint.id()) {
		m.check("closed", m.holds(shown, r, v, false) != yes, "rule %s holds on node %s, and claims it", r.Metadata.Name,
			name)
	}
}

// completes: a rule completes only where it holds. One that is created again takes over the markers of its name.
func (m *Model) completes(was, shown *node, r *rule, v *View) {
	for key := range was.Metadata.Annotations {
		if strings.HasPrefix(key, markerPrefix) {
			return
		}
	}
	m.check("completes", m.holds(shown, r, v, false) != no, "rule %s does not hold on node %s, and completes",
		r.Metadata.Name, shown.Metadata.Name)
}

// opened: a claim that is withdrawn has a cause in what the replica was shown.
func (m *Model) opened(shown *node, r *rule, v *View) {
	rh := m.rules[r.Metadata.UID]
	released := r.Spec.Timeout.Action == "Release" && r.Spec.Timeout.Seconds > 0
	switch {
	case r.Metadata.DeletionTimestamp != nil, r.Spec.DryRun, shown.override() == "Release",
		!r.Spec.NodeSelector.matches(shown.Metadata.Labels), r.Spec.Suspend && !shown.has(shown.claim(r.Metadata.UID)),
		r.Spec.bootstrap() && shown.marked(r), len(rh.taints) > 1,
		// It was removed by hand before the rule was edited.
		(len(rh.inForce) > 1 || v.Edited[r.Metadata.UID]) && !shown.has(shown.claim(r.Metadata.UID)):
		return
	case v.edited(r, 0):
		return
	case released:
		record, after := shown.record(r.Metadata.UID), time.Duration(r.Spec.Timeout.Seconds)*time.Second
		if record.Since.IsZero() || !record.TimedOut.IsZero() || !v.Now.Before(record.Since.Add(after)) {
			return
		}
	}
	m.check("opened", m.holds(shown, r, v, false) != no, "rule %s does not hold on node %s, and releases it",
		r.Metadata.Name, shown.Metadata.Name)
}
