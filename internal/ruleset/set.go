// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Set is a snapshot of all rules. It does not change: With and Without return another one.
type Set struct {
	rules  []*Rule // the oldest first, as by Older
	byUID  map[types.UID]*Rule
	byName map[string]*Rule

	ordered                            []*Rule
	chained, awaits, inspects, gathers bool
	probes, daemonSets                 bool // a rule has any
	managers                           map[TaintID]*Rule
	// publishers are the rules that publish a node condition, by its type, the oldest first, except those that are being
	// deleted. It is nil if no rule publishes a condition.
	publishers map[string][]*Rule
	foreign    Foreign
	successors []*Rule // those that continue a rule of the other API group
}

// NewSet returns a snapshot of rules.
func NewSet(rules ...*Rule) *Set {
	s := &Set{
		rules:  slices.Clone(rules),
		byUID:  make(map[types.UID]*Rule, len(rules)),
		byName: make(map[string]*Rule, len(rules)),

		managers: map[TaintID]*Rule{},
	}
	slices.SortFunc(s.rules, Older)
	for _, r := range s.rules {
		s.byUID[r.UID] = r
	}
	for i, r := range s.rules {
		if lives := r.former.uid != "" && s.byUID[r.former.uid] != nil; lives != r.former.lives {
			other := *r
			other.former.lives = lives
			r = &other
			s.rules[i], s.byUID[r.UID] = r, r
		}
		s.byName[r.Name] = r
		s.probes = s.probes || len(r.Spec.Probes) > 0
		if r.Taint != nil && s.Manager(r.Taint) == nil {
			s.managers[TaintIDOf(*r.Taint)] = r
		}
		s.addPublisher(r)
		if r.former.record != "" && !r.former.lives {
			s.successors = append(s.successors, r)
		}
	}
	s.order()
	return s
}

// Older compares rules by creation, then by name. Older rules take precedence.
func Older(a, b *Rule) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.Name, b.Name))
}

// All returns the rules, the oldest first. The slice must not be changed.
func (s *Set) All() []*Rule { return s.rules }

// Successors returns the rules that continue a rule of the other API group, the oldest first.
func (s *Set) Successors() []*Rule { return s.successors }

// Rule returns the rule with a UID, or nil.
func (s *Set) Rule(uid types.UID) *Rule { return s.byUID[uid] }

// Named returns the rule with a name, or nil.
func (s *Set) Named(name string) *Rule { return s.byName[name] }

// TaintID identifies a taint on a node, by key and effect, as in Kubernetes.
type TaintID struct {
	Key    string
	Effect corev1.TaintEffect
}

// TaintIDOf returns the identity of a taint.
func TaintIDOf(t corev1.Taint) TaintID { return TaintID{t.Key, t.Effect} }

// SameTaints reports whether two lists of taints are equal, in the same order. Each heartbeat asks it, so it works
// without reflection.
func SameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool {
		return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect && x.TimeAdded.Equal(y.TimeAdded)
	})
}

// Manager returns the oldest rule with a taint, or nil.
func (s *Set) Manager(t *corev1.Taint) *Rule { return s.managers[TaintIDOf(*t)] }

// ManagerName returns the name of the oldest rule with a taint, or "".
func (s *Set) ManagerName(t *corev1.Taint) string {
	if r := s.Manager(t); r != nil {
		return r.Name
	}
	return ""
}

// With returns the set with a rule instead of its former version, and of any other rule of the same name.
func (s *Set) With(r *Rule) *Set {
	rest := slices.DeleteFunc(slices.Clone(s.rules), func(o *Rule) bool { return o.UID == r.UID || o.Name == r.Name })
	return NewSet(append(rest, r)...)
}

// Without returns the set without the rule with a UID.
func (s *Set) Without(uid types.UID) *Set {
	return NewSet(slices.DeleteFunc(slices.Clone(s.rules), func(r *Rule) bool { return r.UID == uid })...)
}
