// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/internal/readiness/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Facts is the input of Evaluate: what is known about a node.
type Facts struct {
	Node *corev1.Node
	// Boot is set if the node has rebooted and has not been released since.
	Boot Boot
	// Observed is Verdict.Observed of the previous evaluation of the same rule on the same node.
	Observed Observed
	// Arrivals is what the process remembers of heartbeats far in the future. nil means that they count by their times.
	Arrivals *Arrivals
	// Evidence is the evidence for requirements. nil means that there is none.
	Evidence *Evidence
	// Rules are all rules. They tell which rule manages a taint that keeps a DaemonSet's pod off the node.
	Rules *ruleset.Set
	// Service tells since when the node is in service under the rule.
	Service Service
	// Live lists the pods of a namespace on the node from the API server. It is called after the boot of a rebooted node
	// is confirmed, because a cache may still have the state from before. If it is nil, the pods of Evidence are used.
	Live func(namespace string, selector labels.Selector) []*corev1.Pod
	// Results is a buffer for Verdict.Results, so that evaluating conditions allocates nothing.
	Results []Result
}

// Observed is what a process has observed about a rule on a node. It tells the time of evidence that has none.
type Observed struct {
	// Ready is the verdict, and Since is when the process first saw it.
	Ready bool
	Since time.Time
	// Turned says that the process had seen the opposite before, or could not read the evidence. So the verdict is not
	// older than Since: a node's clock may be wrong.
	Turned bool
	// Assumed says that the process has not seen the verdict, but infers it: the rule was just put in force.
	Assumed bool
	// Refreshed is the heartbeat that made stale evidence fresh again, or a later one after a restart. The transition
	// time of a condition does not tell.
	Refreshed time.Time
	// Watched reports whether the process has observed the node since before its last reboot, with the rule in force.
	// Package gate sets it.
	Watched bool
}

// Verdict says whether a rule's evidence holds on a node.
type Verdict struct {
	// Ready reports whether the evidence holds now, without stabilization.
	Ready bool
	// Since is when the verdict last changed: ready since the latest, not ready since the earliest deciding change. It is
	// never in the future, not before the node's creation, and not before this process saw the change.
	Since time.Time
	// Changed is Since by the times of the evidence alone, if it has times.
	Changed time.Time
	// Remembered says that Since comes from Observed. If the evidence has no times, Since is too late without
	// Facts.Observed, up to now.
	Remembered bool
	// RecheckAt is when the verdict may change even if nothing else does. Zero means never.
	RecheckAt time.Time
	// NeverAppeared says that the verdict is not ready, and that a deciding piece of evidence was not reported at all.
	NeverAppeared bool
	// HeartbeatDecides says that a heartbeat alone may change the verdict, because deciding evidence is stale, from before
	// the node's boot, or from the future.
	HeartbeatDecides bool
	// Results are the pieces of evidence: the conditions, then the requirements, in the rule's order.
	Results []Result
	// Observed is the value of Facts.Observed for the next evaluation.
	Observed Observed
}

// Evaluate returns the verdict of a rule on a node at a time.
func Evaluate(rule *ruleset.Rule, facts *Facts, now time.Time) Verdict {
	if len(rule.Requirements) > 0 && facts.Evidence == nil {
		facts.Evidence = &Evidence{}
	}
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
	for _, t := range []*time.Time{&v.Since, &v.Changed} {
		if created := facts.Node.CreationTimestamp.Time; t.Before(created) && !created.After(now) {
			*t = created // the node's clock is behind, or the evidence is from before its registration
		}
	}
	v.Results = results
	return v
}

// tally adds up the judgements of all pieces of evidence, for both values of conditionPolicy, in one pass.
type tally struct {
	now time.Time

	good, bad span
	recheck   time.Time
	missing   bool
}

// span describes since when the satisfied, or the unsatisfied, pieces of evidence are as they are.
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
		j.Since = time.Time{} // the node's clock is ahead: treat the evidence as if it had no time
	}
	s.add(j.Since)
	if j.Revived.After(t.now) {
		j.Revived = t.now
	}
	if j.Revived.After(s.revived) {
		s.revived = j.Revived
	}
	s.awaits = s.awaits || j.Awaits
	t.missing = t.missing || !j.Satisfied && j.Cause == condition.CauseMissing
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
	v.Since = decides.since(anyOf == ready, v.Observed.Since)
	v.Remembered = decides.undated && v.Since.Equal(v.Observed.Since)
	if v.Observed.Refreshed.After(v.Since) {
		v.Since, v.Remembered = v.Observed.Refreshed, true
	}
	v.Changed = v.Since
	if v.Observed.Turned && v.Observed.Since.After(v.Since) {
		v.Since, v.Remembered = v.Observed.Since, true
	}
	return v
}

func (t *tally) observe(ready bool, decides *span, before Observed) Observed {
	known := !before.Since.IsZero() && !before.Since.After(t.now)
	if known && before.Ready == ready {
		before.Assumed = false
		return before
	}
	return Observed{Ready: ready, Since: t.now, Turned: known && !before.Assumed, Refreshed: decides.revived}
}

// since returns the earliest or the latest time of a span. Evidence without a time counts from when this process first
// saw the verdict. allOf holds since its latest piece holds, and does not hold since its earliest piece does not; anyOf
// is the other way round.
func (s span) since(earliest bool, undated time.Time) time.Time {
	if s.undated {
		s.add(undated)
	}
	if earliest {
		return s.earliest
	}
	return s.latest
}
