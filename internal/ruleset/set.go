// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Set is a snapshot of all rules. It is never changed: With and Without return another one.
type Set struct {
	rules  []*Rule // by age, then name: the order in which older rules take precedence
	byUID  map[types.UID]*Rule
	byName map[string]*Rule

	ordered                    []*Rule
	chained, inspects, gathers bool
	probes, daemonSets         bool // some rule has any
	managers                   map[taintID]*Rule
	// publishers are the rules that publish a node condition, by its type, older ones first; without those that are being
	// deleted. Nil, if no rule publishes any.
	publishers map[string][]*Rule
}

// NewSet is the snapshot of these rules.
func NewSet(rules ...*Rule) *Set {
	s := &Set{
		rules:  slices.Clone(rules),
		byUID:  make(map[types.UID]*Rule, len(rules)),
		byName: make(map[string]*Rule, len(rules)),

		managers: map[taintID]*Rule{},
	}
	slices.SortFunc(s.rules, Older)
	for _, r := range s.rules {
		s.byUID[r.UID] = r
		s.byName[r.Name] = r
		s.probes = s.probes || len(r.Spec.Probes) > 0
		if r.Taint != nil && s.Manager(r.Taint) == nil {
			s.managers[taintID{r.Taint.Key, r.Taint.Effect}] = r
		}
		s.addPublisher(r)
	}
	s.order()
	return s
}

// Older orders rules: negative if a comes before b, by creation, then name.
func Older(a, b *Rule) int {
	if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// All are the rules, older ones first. The slice must not be changed.
func (s *Set) All() []*Rule { return s.rules }

// Rule is the rule with this UID, nil if there is none.
func (s *Set) Rule(uid types.UID) *Rule { return s.byUID[uid] }

// Named is the rule with this name, nil if there is none.
func (s *Set) Named(name string) *Rule { return s.byName[name] }

// taintID tells taints apart.
type taintID struct {
	key    string
	effect corev1.TaintEffect
}

// Manager is the oldest rule with this taint, nil if there is none.
func (s *Set) Manager(t *corev1.Taint) *Rule { return s.managers[taintID{t.Key, t.Effect}] }

// With is the set with a rule put in the place of its former version, and of any other rule of its name.
func (s *Set) With(r *Rule) *Set {
	rest := make([]*Rule, 0, len(s.rules)+1)
	for _, o := range s.rules {
		if o.UID != r.UID && o.Name != r.Name {
			rest = append(rest, o)
		}
	}
	return NewSet(append(rest, r)...)
}

// Without is the set without the rule with this UID.
func (s *Set) Without(uid types.UID) *Set {
	return NewSet(slices.DeleteFunc(slices.Clone(s.rules), func(r *Rule) bool { return r.UID == uid })...)
}
