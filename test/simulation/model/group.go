// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// After a change of the API group, each rule is continued by another one, with another UID, and its first generation.
// To the model, both are one rule: it has the UID and the creation time of the first one, and its generations go on.
// So everything that is promised of a rule is promised of both.

// Continued is an annotation of the simulation on a rule that continues another one: that one's creation time, and its
// last generation but one.
const Continued = "example.com/continued"

// First returns the UID of the first one of the rules that continue one another: the digits that count them are zero.
func First(uid string) string {
	const from, to, length = 9, 13, 36
	if len(uid) != length {
		return uid
	}
	return uid[:from] + "0000" + uid[to:]
}

// continues makes a rule the one that it continues.
func (r *rule) continues() {
	r.Metadata.own = r.Metadata.UID
	r.Metadata.UID = First(r.Metadata.UID)
	text, there := r.Metadata.Annotations[Continued]
	if !there {
		return
	}
	var of struct {
		Generation int64
		Created    time.Time
	}
	if err := json.Unmarshal([]byte(text), &of); err != nil {
		panic(err)
	}
	goOn := func(generation *int64) {
		if *generation > 0 {
			*generation += of.Generation
		}
	}
	r.Metadata.CreationTimestamp = of.Created
	goOn(&r.Metadata.Generation)
	goOn(&r.Status.ObservedGeneration)
	for i := range r.Status.Conditions {
		goOn(&r.Status.Conditions[i].ObservedGeneration)
	}
	for i := range r.Status.Replacements.Last {
		goOn(&r.Status.Replacements.Last[i].Generation)
	}
}

// firstKey returns the key of a record or a marker of the first rule for that of a rule that continues it.
func firstKey(key string) string {
	for _, prefix := range []string{recordPrefix, markerPrefix} {
		if uid, ok := strings.CutPrefix(key, prefix); ok {
			return prefix + First(uid)
		}
	}
	return key
}

// continues makes the records and markers of rules those of the first ones. If a node has those of several, the last
// one counts, whose key is the last in order.
func (n *node) continues() {
	of, cloned := n.Metadata.Annotations, false // the object has it, too
	for key := range of {
		if strings.HasPrefix(key, recordPrefix) || strings.HasPrefix(key, markerPrefix) {
			n.keys = append(n.keys, key)
		}
	}
	slices.Sort(n.keys)
	for _, key := range n.keys {
		if first := firstKey(key); first != key {
			if !cloned {
				n.Metadata.Annotations, cloned = maps.Clone(of), true
			}
			n.Metadata.Annotations[first] = of[key]
			delete(n.Metadata.Annotations, key)
		}
	}
}

// knows reports whether the engine knows that a node has the record or the marker of a rule. On a node that is there,
// the policy knows only those of this rule itself, and not those of a rule that it continues: the operator moves them.
func (r *Request) knows(n *node, prefix string, of *rule) bool {
	return slices.ContainsFunc(n.keys, func(key string) bool {
		return key == prefix+of.Metadata.own || (!r.Policy || r.Before == nil) && firstKey(key) == prefix+of.Metadata.UID
	})
}

// gains reports whether a node has another record of rules that continue one another than before.
func (n *node) gains(first string, before *node) bool {
	return slices.ContainsFunc(n.keys, func(key string) bool {
		return firstKey(key) == first && !slices.Contains(before.keys, key)
	})
}

// several reports whether a node has records of several rules that continue one another.
func (n *node) several(first string) bool {
	is := func(key string) bool { return firstKey(key) == first }
	at := slices.IndexFunc(n.keys, is)
	return at >= 0 && slices.ContainsFunc(n.keys[at+1:], is)
}

// moved: the record and the marker of a rule that is continued are those of the rule that continues it.
func (m *Model) moved(n *node, v *View) {
	for r := range v.rules() {
		if r.Metadata.own == r.Metadata.UID {
			continue
		}
		for _, key := range n.keys {
			if first := firstKey(key); first == r.key() || first == markerPrefix+r.Metadata.UID {
				m.check("moved", strings.HasSuffix(key, r.Metadata.own), "node %s has annotation %s of a rule that rule %s (%s) "+
					"continues", n.Metadata.Name, key, r.Metadata.Name, r.Metadata.own)
			}
		}
	}
}

// moves: a write that removes the marker of a rule that is continued adds that of the rule that continues it, unless it
// has no more markers, or the node has rebooted.
func (m *Model) moves(was, is *node, r *rule) {
	if r.Metadata.own == r.Metadata.UID || !r.Spec.bootstrap() || r.Spec.rearms() || r.Metadata.DeletionTimestamp != nil ||
		m.node(is.Metadata.UID).full {
		return
	}
	for _, key := range was.keys {
		if firstKey(key) == markerPrefix+r.Metadata.UID && !strings.HasSuffix(key, r.Metadata.own) &&
			!slices.Contains(is.keys, key) {
			m.check("moved", slices.Contains(is.keys, markerPrefix+r.Metadata.own), "node %s loses annotation %s, and rule %s "+
				"(%s) has not completed it", is.Metadata.Name, key, r.Metadata.Name, r.Metadata.own)
		}
	}
}
