// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"slices"

	"github.com/nodegate/nodegate/internal/evidence"
)

// WithDaemonSets returns the set with the DaemonSets of a cluster in its requirements. It freezes rules that wait for
// each other because of them. before is the former result. A rule for which nothing has changed is the same as in
// before.
func (s *Set) WithDaemonSets(in evidence.Cluster, before *Set) *Set {
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
	if before != nil && before.thawed != nil {
		before = before.thawed
	}
	if before != nil && before.bare == bare && slices.EqualFunc(before.DaemonSets(), out.DaemonSets(),
		(*evidence.DaemonSets).Alike) {
		return before
	}
	return &out
}
