// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"time"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/fleet"
	"github.com/nodegate/nodegate/internal/ruleset"
)

const (
	// manyNodes is how many nodes make it an event that they turn unready for one cause.
	manyNodes = 3
	// settled is for how long no further node has to follow before it is reported, so that it is reported once.
	settled = 2 * time.Second
	// patience bounds the wait where more and more nodes follow.
	patience = 10 * time.Second
)

// massFailures are the causes for which nodes in service do not satisfy a rule, by what is missing. A process starts
// with what it finds: what was so before is no news. Nil: it has not started.
type massFailures map[string]*massFailure

// massFailure is one cause.
type massFailure struct {
	// nodes is how many there are, reported how many there were when it was last reported, or since.
	nodes, reported int
	// began is when there were many that have not been reported, grew is when the last one came.
	began, grew time.Time
}

// observe takes over how many nodes each cause has, and returns those causes that are to be reported now, and when to
// look again; 0: when something changes.
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
		if c.Count > b.nodes {
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

// know takes over what is there, as reported.
func know(causes []fleet.Cause) massFailures {
	o := massFailures{}
	for _, c := range causes {
		o[c.What] = &massFailure{nodes: c.Count, reported: c.Count}
	}
	return o
}

// reportMassFailures reports as one event on the rule that many nodes in service have turned unready for one cause, and
// returns when to look again.
func (r *Reconciler) reportMassFailures(rule *v1alpha1.NodeReadinessRule, causes []fleet.Cause,
	now time.Time) time.Duration {
	r.mu.Lock()
	p := r.progress(rule)
	if p.massFailures == nil {
		p.massFailures = know(causes)
	}
	news, again := p.massFailures.observe(causes, now)
	r.mu.Unlock()
	for _, c := range news {
		r.warn(rule, reasonNodesTurnedUnready, actionEvaluate,
			"%d nodes in service are not ready for the same cause: %s: %s", c.Count, c.What,
			ruleset.Few(c.Nodes, maxNames, c.Count))
	}
	return again
}
