// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// Facts are what is known about one node when a rule is judged.
type Facts struct {
	// Node is the node.
	Node *corev1.Node
	// NotBefore, where set, is the Ready heartbeat of the object that brought the node's present boot ID: evidence
	// reported before it is from an earlier boot and counts as Unknown.
	NotBefore time.Time
	// Observed is what this process saw of this rule on this node before; it dates evidence that bears no time.
	Observed Observed
}

// Observed is since when a process has seen a rule hold, or not hold, on a node.
type Observed struct {
	Ready bool
	Since time.Time
	// Stale is whether it did not hold for want of a heartbeat.
	Stale bool
	// Refreshed is when, after that, a heartbeat made it hold again: the conditions' transition times do not tell.
	Refreshed time.Time
}

// Verdict is whether a rule holds on a node.
type Verdict struct {
	// Ready is whether the evidence holds at this moment, without any stabilization.
	Ready bool
	// Since is since when: ready since the latest, unready since the earliest deciding change. Never in the future.
	Since time.Time
	// RecheckAt is when the verdict may change by the passage of time alone; zero if it cannot.
	RecheckAt time.Time
	// NeverAppeared is true where the rule does not hold and a deciding piece of evidence is not there at all.
	NeverAppeared bool
	// HeartbeatDecides is true where a heartbeat alone, with no other change, may change the verdict: evidence is
	// stale or from an earlier boot.
	HeartbeatDecides bool
	// Observed is what to pass as Facts.Observed the next time.
	Observed Observed
}

// Evaluate judges a rule on a node at the given time. It does not allocate.
func Evaluate(rule *ruleset.Rule, facts *Facts, now time.Time) Verdict {
	t := tally{now: now}
	for i := range rule.Spec.Conditions {
		t.add(judge(&rule.Spec.Conditions[i], facts, now))
	}
	return t.verdict(rule.Spec.AnyOf(), facts.Observed)
}

// tally sums up the judgements of all pieces of evidence, for either policy, in one pass.
type tally struct {
	now time.Time

	good, bad span
	recheck   time.Time
	missing   bool
	heartbeat bool
}

// span is the times since when several pieces of evidence are as they are.
type span struct {
	n                int
	earliest, latest time.Time
	undated          bool
}

func (s *span) add(since time.Time) {
	s.n++
	if since.IsZero() {
		s.undated = true
		return
	}
	if s.earliest.IsZero() || since.Before(s.earliest) {
		s.earliest = since
	}
	if since.After(s.latest) {
		s.latest = since
	}
}

func (t *tally) add(j judgement) {
	since := j.since
	if since.After(t.now) {
		since = time.Time{} // a clock ahead of ours: as if it bore no time
	}
	if j.satisfied {
		t.good.add(since)
	} else {
		t.bad.add(since)
		t.missing = t.missing || j.cause == CauseMissing
		t.heartbeat = t.heartbeat || j.cause == CauseStale || j.cause == CauseBeforeBoot
	}
	if !j.changesAt.IsZero() && (t.recheck.IsZero() || j.changesAt.Before(t.recheck)) {
		t.recheck = j.changesAt
	}
}

func (t *tally) verdict(anyOf bool, before Observed) Verdict {
	ready := t.bad.n == 0
	if anyOf {
		ready = t.good.n > 0
	}
	v := Verdict{Ready: ready, RecheckAt: t.recheck}
	v.Observed = t.observe(ready, before)
	if ready {
		v.Since = t.since(t.good, anyOf, v.Observed.Since)
		if v.Observed.Refreshed.After(v.Since) {
			v.Since = v.Observed.Refreshed
		}
		return v
	}
	v.Since = t.since(t.bad, !anyOf, v.Observed.Since)
	v.NeverAppeared = t.missing
	v.HeartbeatDecides = t.heartbeat
	return v
}

func (t *tally) observe(ready bool, before Observed) Observed {
	known := !before.Since.IsZero() && !before.Since.After(t.now)
	o := Observed{Ready: ready, Since: t.now, Stale: !ready && t.heartbeat}
	if known && before.Ready == ready {
		o.Since, o.Refreshed = before.Since, before.Refreshed
	} else if known && ready && before.Stale {
		o.Refreshed = t.now
	}
	return o
}

// since is the earliest or the latest time of a span, where undated evidence counts from when this process first saw
// the verdict as it is. A conjunction is true since its latest member is, and false since its earliest is not; a
// disjunction the other way round.
func (t *tally) since(s span, earliest bool, undated time.Time) time.Time {
	if s.undated {
		s.add(undated)
	}
	if earliest {
		return s.earliest
	}
	return s.latest
}
