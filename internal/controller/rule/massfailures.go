// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/text"
)

const (
	// manyNodes is the number of nodes that must be not ready for one cause to be reported.
	manyNodes = 3
	// settled is how long no more nodes may follow before a cause is reported, so that it is reported once.
	settled = 2 * time.Second
	// patience is the longest wait while more nodes follow.
	patience = 10 * time.Second
)

// massFailures has the causes for which nodes in service are not ready under a rule, by what is missing. It is nil
// until the first count, which is not reported: these nodes may have been not ready for long. The first count after the
// rule is put in force is not reported either: the nodes that exist then are in service, also if they never were ready.
type massFailures map[string]*massFailure

// massFailure is one cause.
type massFailure struct {
	// nodes is the number of nodes, and reported the lowest number since the last report.
	nodes, reported int
	// began is when there were enough nodes for a report, and grew is when the last one followed.
	began, grew time.Time
}

// observe stores the number of nodes of each cause. It returns the causes to report now, and when to look again, or 0
// if nothing changes by the passage of time.
func (o massFailures) observe(causes []fleet.Cause, now time.Time) (news []fleet.Cause, again time.Duration) {
	there := map[string]bool{}
	for _, c := range causes {
		there[c.What] = true
		b := o[c.What]
		if b == nil {
			b = &massFailure{}
			o[c.What] = b
		}
		if b.nodes-b.reported < manyNodes {
			b.began = now
		}
		if c.Count > b.nodes || b.grew.After(now) { // or the clock has been set back
			b.grew = now
		}
		b.nodes = c.Count
		b.reported = min(b.reported, b.nodes)
		if b.nodes-b.reported < manyNodes {
			continue
		}
		wait := min(b.grew.Add(settled).Sub(now), b.began.Add(patience).Sub(now))
		switch {
		case wait <= 0:
			b.reported = b.nodes
			news = append(news, c)
		case again == 0 || wait < again:
			again = wait
		}
	}
	for what := range o {
		if !there[what] {
			delete(o, what)
		}
	}
	return news, again
}

// know stores the causes as reported.
func know(causes []fleet.Cause) massFailures {
	o := massFailures{}
	for _, c := range causes {
		o[c.What] = &massFailure{nodes: c.Count, reported: c.Count}
	}
	return o
}

// reportMassFailures emits one event on the rule when many nodes in service have become not ready for one cause. It
// returns when to look again. It waits until every node was evaluated by this version of the rule.
func (r *Reconciler) reportMassFailures(rule *v1alpha1.NodeReadinessRule, m *fleet.Material,
	now time.Time) time.Duration {
	if m.Pending > 0 {
		return 0
	}
	r.mu.Lock()
	p := r.progress(rule)
	if p.massFailures == nil || !p.inForceSince.Equal(m.Rule.InForceSince) {
		p.massFailures, p.inForceSince = know(m.Causes), m.Rule.InForceSince
	}
	news, again := p.massFailures.observe(m.Causes, now)
	r.mu.Unlock()
	for _, c := range news {
		r.warn(rule, reasonNodesTurnedUnready, actionEvaluate,
			"%d nodes in service are not ready for the same cause: %s: %s", c.Count, c.What,
			text.Few(c.Nodes, maxNames, c.Count))
	}
	return again
}
