// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Request is a write of a node, as its client sent it, and as admission let it be stored.
type Request struct {
	// Before is nil for a new node.
	Before, Sent, Stored Document
	// Kubelet is whether the node's kubelet sent it; Skipped is whether the node is exempt from admission.
	Kubelet, Skipped bool
	// Policy is whether the policy taints nodes, and not the webhook. The policy has no clock.
	Policy bool
	// Seen is whether it is known which rules the engine saw: those that are listed, or without a list those of the view.
	Seen bool
	// Settled is whether all replicas know the present state, and have listed the rules for admission by it.
	Settled bool
	// Listed lists the rules for admission, as the engine saw them. It is nil if there is no list.
	Listed Document
}

// Admitted judges what admission made of a write of a node.
func (m *Model) Admitted(r *Request, v *View) {
	before, sent, stored := read[node](r.Before), read[node](r.Sent), read[node](r.Stored)
	m.adds(r, before, sent, stored)
	if r.Settled {
		m.theirs(sent, stored, v)
	}
	if !r.Seen || r.Policy && r.Listed == nil { // without a list, the policy does not run
		return
	}
	claimed, crowded := map[string]bool{}, m.crowded(r, before, sent, v)
	for of := range r.rules(v) {
		m.admits(r, before, sent, stored, of, crowded, v)
		claimed[of.key()] = true
	}
	for key := range stored.Metadata.Annotations {
		if strings.HasPrefix(key, recordPrefix) && !claimed[key] && !r.Skipped {
			m.check("admits", before != nil && sent.Metadata.Annotations[key] != "", "node %s has the annotation %s of no rule",
				sent.Metadata.Name, key)
		}
	}
}

// rules are those that the engine saw.
func (r *Request) rules(v *View) iter.Seq[*rule] {
	if r.Listed != nil {
		return read[list](r.Listed).all()
	}
	return v.rules()
}

// list is the object that lists the rules for admission, and those that are frozen.
type list struct {
	Frozen []string
	Groups []struct {
		Selector []struct {
			Key, Operator string
			Values        []string
		}
		Rules []string
	}
}

// all are the listed rules.
func (l *list) all() iter.Seq[*rule] {
	return func(yield func(*rule) bool) {
		for _, group := range l.Groups {
			for _, line := range group.Rules {
				r, words := &rule{listed: true}, strings.Split(line, ",")
				since, err := time.Parse(time.RFC3339, words[1])
				if err != nil {
					panic(err)
				}
				r.Metadata.UID, r.Metadata.own, r.Metadata.Name = First(words[0]), words[0], words[2]
				r.Status.InForce.StartTime = since
				r.Spec.Taint = taint{Key: words[3], Value: words[4], Effect: words[5]}
				r.Spec.NodeSelector.MatchExpressions = group.Selector
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Listed judges the list of the rules for admission at a quiet moment: it has all rules that taint nodes at admission,
// and no others, and those that are frozen.
func (m *Model) Listed(of Document, v *View) {
	if v.Foreign { // then it stays as it was
		return
	}
	in, frozen, there := map[string]taint{}, []string(nil), map[string]bool{} // by their own UIDs
	if of != nil {
		for r := range read[list](of).all() {
			in[r.Metadata.own] = r.Spec.Taint
		}
		frozen = read[list](of).Frozen
	}
	for r := range v.rules() {
		t, listed := in[r.Metadata.own]
		there[r.Metadata.own] = true
		must := r.Spec.Taint.Key != "" && r.Metadata.DeletionTimestamp == nil && r.Spec.enforced() &&
			r.Spec.NodeAdmission != "None" && v.frozen(r) == "" && !r.notInForce() // as in a deadlock
		m.check("listed", listed == must && (!must || t == r.Spec.Taint), "rule %s is listed for admission: %t, %v",
			r.Metadata.Name, listed, t)
		inForce, is := v.frozen(r) == "" && !r.notInForce(), slices.Contains(frozen, r.Metadata.own)
		m.check("listed", (!is || !inForce) && (is || r.Metadata.DeletionTimestamp != nil || !r.invalid()),
			"rule %s is listed as frozen: %t", r.Metadata.Name, is)
	}
	for _, uid := range append(frozen, slices.Collect(maps.Keys(in))...) {
		m.check("listed", there[uid], "the rule %s is listed for admission, and does not exist", uid)
	}
}

// Joins judges whether a node that brings no record, and so many annotations, is created. Where a policy protects
// records, kubelets may add up to 500.
func (m *Model) Joins(name string, annotations int, created bool) {
	m.check("admission", created == (annotations <= mostAnnotations || m.Unguarded),
		"node %s with %d annotations is created: %t", name, annotations, created)
}

// adds: admission adds taints and records of rules, and removes records from a new node. It leaves alone what is not
// new and does not get other labels, what kubelets update, and what is exempt, and never adds NoExecute later.
func (m *Model) adds(r *Request, before, sent, stored *node) {
	bare := func(n *node) node {
		other := *n
		other.Spec.Taints, other.Metadata.Annotations, other.records, other.keys = nil, nil, nil, nil
		return other
	}
	name := sent.Metadata.Name
	m.check("admission", reflect.DeepEqual(bare(sent), bare(stored)), "more than taints and annotations of node %s is "+
		"changed", name)
	asked := map[string]bool{}
	for _, h := range m.rules {
		maps.Copy(asked, h.taints)
	}
	leaves := r.Skipped || before != nil && (r.Kubelet || maps.Equal(before.Metadata.Labels, sent.Metadata.Labels))
	for _, t := range sent.Spec.Taints {
		if before == nil {
			m.node(sent.Metadata.UID).foreign[t.id()] = true
		}
		m.check("admission", slices.Contains(stored.Spec.Taints, t), "node %s loses its taint %s", name, t.id())
	}
	for _, t := range stored.Spec.Taints {
		if slices.Contains(sent.Spec.Taints, t) {
			continue
		}
		m.check("admission", !leaves && asked[t.id()] && (before == nil || t.Effect != "NoExecute") && stored.claimsValue(t),
			"node %s gets the taint %s", name, t.id())
	}
	for key := range sorted(union(sent.Metadata.Annotations, stored.Metadata.Annotations)) {
		was, is := sent.Metadata.Annotations[key], stored.Metadata.Annotations[key]
		if was != is {
			m.check("admission", !leaves && strings.HasPrefix(key, recordPrefix) && (before == nil || was == "" ||
				r.Policy && stored.gains(key, sent)),
				"annotation %s of node %s is changed", key, name)
		}
	}
}

// admits: admission claims the taint of each rule in force that a node comes to match, and drops what a new node brings
// as its record.
func (m *Model) admits(r *Request, before, sent, stored *node, of *rule, crowded answer, v *View) {
	name, has := of.Metadata.Name, stored.Metadata.Annotations[of.key()]
	must := m.claims(r, before, sent, of, v)
	if must == yes && crowded != no {
		must = map[answer]answer{yes: no, unknown: unknown}[crowded]
	}
	if must == unknown || m.node(stored.Metadata.UID).full { // there may be no room for the record
		return
	}
	if must == no {
		m.check("admits", has == "" || has == sent.Metadata.Annotations[of.key()] && (before != nil || r.Skipped),
			"rule %s claims node %s at admission", name, sent.Metadata.Name)
		return
	}
	rec, t := stored.record(of.Metadata.UID), of.Spec.Taint
	if r.Policy && before != nil && has == "" && v.claimedByAnother(stored, of.Metadata.UID, t.id()) {
		return // the policy is run for one rule after the other: the taint is there already
	}
	m.check("admits", rec.claim() == t.id() && stored.has(t.id()), "rule %s does not claim node %s at admission", name,
		sent.Metadata.Name)
	m.check("admits", rec.Since.IsZero() == r.Policy && rec.Released.IsZero() && rec.Late == (r.Policy && before != nil),
		"the record of rule %s on node %s is %s", name, sent.Metadata.Name, has)
}

// mostAnnotations is how many annotations a kubelet's node may have, and one that rules claim at admission.
const mostAnnotations = 500

// crowded says whether a node would have too many annotations: then no rule claims it at admission.
func (m *Model) crowded(r *Request, before, sent *node, v *View) answer {
	least := 0
	for key := range sent.Metadata.Annotations {
		if before != nil || !strings.HasPrefix(key, recordPrefix) { // what a new node brings as records is dropped
			least++
		}
	}
	if least < mostAnnotations/2 { // it is far from that
		return no
	}
	most := least
	for of := range r.rules(v) {
		switch m.claims(r, before, sent, of, v) {
		case yes:
			least, most = least+1, most+1
		case unknown:
			most++
		}
	}
	if least <= mostAnnotations && most > mostAnnotations {
		return unknown
	}
	return sure(least > mostAnnotations)
}

// claims says whether admission must claim a node for a rule.
func (m *Model) claims(r *Request, before, sent *node, of *rule, v *View) answer {
	since := latest(of.Metadata.CreationTimestamp, of.Status.InForce.StartTime)
	age := sent.condition("Ready").LastHeartbeatTime.Sub(sent.Metadata.CreationTimestamp)
	_, old := sent.Metadata.Annotations[markerPrefix+of.Metadata.Name]
	switch {
	case r.Skipped, of.Spec.Taint.Key == "", of.Metadata.DeletionTimestamp != nil, !of.Spec.enforced(),
		of.Spec.NodeAdmission == "None", of.notInForce(), !of.Spec.NodeSelector.matches(sent.Metadata.Labels),
		r.knows(sent, markerPrefix, of):
		return no
	case before != nil && (r.Kubelet || of.Spec.Taint.Effect == "NoExecute" || sent.Metadata.DeletionTimestamp != nil ||
		of.Spec.NodeSelector.matches(before.Metadata.Labels) || r.knows(sent, recordPrefix, of) ||
		sent.has(of.Spec.Taint.id()) || age > 10*time.Minute || sent.Metadata.CreationTimestamp.Before(since)):
		return no
	case of.listed:
		return sure(!old)
	case v.frozen(of) != "", old, m.rules[of.Metadata.UID] == nil:
		return unknown
	case before != nil && m.existing(sent, of) != no: // its status may not say it yet
		return unknown
	}
	return yes
}
