// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/internal/ruleset"
)

// Facts are what is known about one node when a rule is judged.
type Facts struct {
	// Node is the node.
	Node *corev1.Node
	// Boot is set while the node has rebooted and has not been released since.
	Boot Boot
	// Observed is what this process saw of this rule on this node before; it dates evidence that has no time.
	Observed Observed
	// Evidence is what requirements are judged by; nil, where no rule has any.
	Evidence *Evidence
	// Rules are all rules; requirements of DaemonSets ask whose a taint is.
	Rules *ruleset.Set
	// Service is since when the node is in service under the rule.
	Service Service
	// Live lists the pods of a namespace on the node from the API server, once the node's boot is confirmed: a cache may
	// still show them as they were before. Nil: Evidence is as good.
	Live func(namespace string, selector labels.Selector) []*corev1.Pod
	// Results is a buffer for the results of the verdict, so that judging conditions costs no allocation.
	Results []Result
}

// Observed is since when a process has seen a rule hold, or not hold, on a node.
type Observed struct {
	Ready bool
	Since time.Time
	// Refreshed is the heartbeat at which, at the latest, evidence that decides ceased to be too old: the conditions'
	// transition times do not tell. After a restart it may be a later one, never an earlier one.
	Refreshed time.Time
	// Watched is whether the process has seen the node since before its last reboot, with the rule in force. Package gate
	// sets it.
	Watched bool
}

// Verdict is whether a rule holds on a node.
type Verdict struct {
	// Ready is whether the evidence holds at this moment, without any stabilization.
	Ready bool
	// Since is since when: ready since the latest, unready since the earliest deciding change. Never in the future.
	Since time.Time
	// Remembered is true where Since comes from Observed, because the times of the evidence do not tell it. Without
	// Facts.Observed, Since is then later than it was, up to now.
	Remembered bool
	// RecheckAt is when the verdict may change by the passage of time alone; zero if it cannot.
	RecheckAt time.Time
	// NeverAppeared is true where the rule does not hold and a deciding piece of evidence is not there at all.
	NeverAppeared bool
	// HeartbeatDecides is true where a heartbeat alone, with no other change, may change the verdict: evidence that
	// decides is stale or from an earlier boot.
	HeartbeatDecides bool
	// Results are the pieces of evidence that were judged: the conditions, then the requirements, in the rule's order.
	Results []Result
	// Observed is what to pass as Facts.Observed the next time.
	Observed Observed
}

// Evaluate judges a rule on a node at the given time.
func Evaluate(rule *ruleset.Rule, facts *Facts, now time.Time) Verdict {
	t := tally{now: now}
	results := facts.Results[:0]
	for i := range rule.Spec.Conditions {
		c := &rule.Spec.Conditions[i]
		results = append(results, Result{Type: c.Type, Required: c.RequiredStatus, condition: c,
			judgement: facts.judgeCondition(c, now)})
		t.add(results[len(results)-1].judgement)
	}
	for i := range rule.Requirements {
		results = append(results, judgeRequirement(rule, &rule.Requirements[i], facts, now))
		t.add(results[len(results)-1].judgement)
	}
	v := t.verdict(rule.Spec.AnyOf(), facts.Observed)
	v.Results = results
	return v
}

// tally sums up the judgements of all pieces of evidence, for either policy, in one pass.
type tally struct {
	now time.Time

	good, bad span
	recheck   time.Time
	missing   bool
}

// span is the times since when several pieces of evidence are as they are.
type span struct {
	n                int
	earliest, latest time.Time
	undated          bool
	revived          time.Time
	awaits           bool
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
	s := &t.bad
	if j.Satisfied {
		s = &t.good
	}
	if j.Since.After(t.now) {
		j.Since = time.Time{} // a clock ahead of ours: as if it bore no time
	}
	s.add(j.Since)
	if j.Revived.After(t.now) {
		j.Revived = t.now
	}
	if j.Revived.After(s.revived) {
		s.revived = j.Revived
	}
	s.awaits = s.awaits || j.Awaits
	t.missing = t.missing || !j.Satisfied && j.Cause == CauseMissing
	if !j.ChangesAt.IsZero() && (t.recheck.IsZero() || j.ChangesAt.Before(t.recheck)) {
		t.recheck = j.ChangesAt
	}
}

func (t *tally) verdict(anyOf bool, before Observed) Verdict {
	ready := t.bad.n == 0
	if anyOf {
		ready = t.good.n > 0
	}
	decides := &t.bad
	if ready {
		decides = &t.good
	}
	v := Verdict{
		Ready: ready, RecheckAt: t.recheck, NeverAppeared: !ready && t.missing, HeartbeatDecides: decides.awaits,
		Observed: t.observe(ready, decides, before),
	}
	v.Since = t.since(*decides, anyOf == ready, v.Observed.Since)
	v.Remembered = decides.undated && v.Since.Equal(v.Observed.Since)
	if v.Observed.Refreshed.After(v.Since) {
		v.Since, v.Remembered = v.Observed.Refreshed, true
	}
	return v
}

func (t *tally) observe(ready bool, decides *span, before Observed) Observed {
	if before.Ready == ready && !before.Since.IsZero() && !before.Since.After(t.now) {
		return before
	}
	return Observed{Ready: ready, Since: t.now, Refreshed: decides.revived}
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
