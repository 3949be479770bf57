// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"
)

// jumpedFor is for how long the operator may not notice that its clock was set.
const jumpedFor = 10*time.Minute + slack

// Clock notes for how long the clock of a replica is ahead from now on.
func (m *Model) Clock(ahead time.Duration) {
	m.behind, m.ahead = min(m.behind, ahead), max(m.ahead, ahead)
}

// wrong reports whether a clock of a replica is or was wrong.
func (m *Model) wrong() bool { return m.spread() > 0 }

// spread is by how much the clocks of two replicas, or of one at two times, differ at most, or from the API server's.
func (m *Model) spread() time.Duration { return m.ahead - m.behind }

// set reports whether the clock was set while a window was open: then it may end at any time.
func (v *View) set(since time.Time) bool { return v.Jumped.After(since) }

// unnoticed reports whether the clock was set a short time ago, so that what is due may not have happened yet.
func (m *Model) unnoticed(v *View) bool {
	return !v.Jumped.IsZero() && m.now().Sub(v.Jumped) < jumpedFor
}

// arrives reports whether what a node reports may count from its arrival.
func (m *Model) arrives(n *node) bool { return m.skewed(n) || m.behind < -4*time.Minute }

// ages reports whether a verdict of the rule depends on the time.
func (r *rule) ages() bool {
	for i := range r.Spec.Conditions {
		if r.Spec.Conditions[i].MaxAgeSeconds > 0 {
			return true
		}
	}
	return r.Spec.rearms() || slices.ContainsFunc(r.Spec.Requirements, func(q requirement) bool {
		return q.Pods != nil || q.DaemonSets != nil || q.RuleSatisfied != nil
	})
}

// everywhere says whether a rule holds on a node by all clocks that may decide.
func (m *Model) everywhere(n *node, r *rule, v *View) answer {
	is := m.holds(n, r, v, true)
	for _, now := range v.Clocks {
		if !r.ages() {
			break
		}
		by := *v
		if by.Now = now; m.holds(n, r, &by, true) != is {
			return unknown
		}
	}
	return is
}
