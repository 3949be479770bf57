// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"slices"

	"github.com/nodegate/nodegate/internal/evidence"
)

// Known is what a set cannot know by itself. What is not given changes nothing.
type Known struct {
	// Cluster has the DaemonSets.
	evidence.Cluster
	// KeyPrefixes are the prefixes of the keys of taints and annotations that rules may have. nil means any.
	KeyPrefixes []string
	// Foreign are the taints of another controller. nil means that they are not known, or as in the set.
	Foreign Foreign
	// Unavailable returns why the evidence of a rule cannot be read, or nil.
	Unavailable func(*Rule) *Problem
}

// Reasons for which a rule is frozen because of its evidence.
const (
	// ReasonPending means that evidence of the rule is being read for the first time.
	ReasonPending = "EvidencePending"
	// ReasonUnavailable means that evidence of the rule cannot be read.
	ReasonUnavailable = "EvidenceUnavailable"
)

// Resolve returns the set with all that the rules depend on: other rules, the cluster and the installation. It freezes
// rules with a taint of another controller or a forbidden key, rules that are invalid because of other rules, rules
// whose evidence is unavailable, and rules that wait for each other because of DaemonSets; then the rules that require
// any of those. before is the former result. A rule for which nothing has changed is the same as in before. What is
// resolved already may be resolved again when more is known.
func (s *Set) Resolve(known Known, before *Set) *Set {
	foreign := known.Foreign
	if foreign == nil {
		foreign = s.foreign
	}
	s = s.freezeForeign(known.Foreign, before).freezeForbidden(known.KeyPrefixes, before).freezeInvalid(before)
	if known.Unavailable != nil {
		s = s.freezeUnavailable(known.Unavailable, foreign, before)
	}
	if known.DaemonSets != nil {
		s = s.withDaemonSets(known.Cluster, before)
	}
	return s.freezeDependents(before).WithForeign(foreign)
}

// freezeUnavailable returns the set with the rules frozen whose evidence cannot be read, or has not been read yet.
// Otherwise the evidence would look as if it were missing. If such a rule was edited, its former version stays in force
// until the new evidence has been read, unless another controller manages its taint by now.
func (s *Set) freezeUnavailable(unavailable func(*Rule) *Problem, foreign Foreign, before *Set) *Set {
	rules := slices.Clone(s.rules)
	for i, rule := range rules {
		if rule.Mode == Deleting || rule.Mode == Frozen {
			continue
		}
		if p := unavailable(rule); p != nil {
			former := before.Rule(rule.UID)
			rules[i] = rule.FreezeLike(former, *p)
			if p.Reason == ReasonPending && rule.Mode == Enforced && former != nil && former.Mode == Enforced &&
				unavailable(former) == nil && foreign.Problem(former) == nil {
				rules[i] = former
			}
		}
	}
	return NewSet(rules...)
}

// withDaemonSets returns the set with the DaemonSets of a cluster in its requirements. It freezes rules that wait for
// each other because of them.
func (s *Set) withDaemonSets(in evidence.Cluster, before *Set) *Set {
	if !s.daemonSets {
		return s
	}
	rules := slices.Clone(s.rules)
	for i, r := range rules {
		if r.Mode != Deleting && r.Mode != Frozen && len(r.DaemonSets()) > 0 {
			rules[i] = r.withDaemonSets(in, before.Rule(r.UID))
		}
	}
	return NewSet(rules...).breakDeadlocks(before)
}

func (r *Rule) withDaemonSets(in evidence.Cluster, before *Rule) *Rule {
	bare := cmp.Or(r.bare, r)
	out := *bare
	out.bare = bare
	out.Requirements = slices.Clone(bare.Requirements)
	for i := range out.Requirements {
		if q, ok := out.Requirements[i].Kind.(*evidence.DaemonSets); ok {
			out.Requirements[i].Kind = q.In(in)
		}
	}
	for before != nil && before.thawed != nil {
		before = before.thawed
	}
	if before != nil && before.bare == bare && slices.EqualFunc(before.DaemonSets(), out.DaemonSets(),
		(*evidence.DaemonSets).Alike) {
		return before
	}
	return &out
}
