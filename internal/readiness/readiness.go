// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"strings"
	"time"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/evidence/condition"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Observed is what a process has observed about a rule on a node. It tells the time of evidence that has none.
type Observed struct {
	// Ready is the verdict, and Since is when the process first saw it.
	Ready bool
	Since time.Time
	// Unread says that the process could not read the evidence after that. When it can read it again, all windows begin.
	// Packages gate and fleet set it.
	Unread bool
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
	// Unarmed says that the last reboot has not re-armed the node, as the process has seen: the record has got the
	// boot ID because rearmOn was added after the boot. Package gate sets it.
	Unarmed bool
}

// Verdict says whether a node is ready under a rule.
type Verdict struct {
	// Ready reports whether the evidence is satisfied now, without stabilization.
	Ready bool
	// Since is when the verdict last changed: ready since the latest, not ready since the earliest deciding change. It is
	// never in the future, not before the node's creation, and not before this process saw the change.
	Since time.Time
	// Changed is Since by the times of the evidence alone, if it has times.
	Changed time.Time
	// Remembered says that Since comes from Observed. If the evidence has no times, Since is too late without
	// it, up to now.
	Remembered bool
	// RecheckAt is when the verdict may change even if nothing else does. Zero means never.
	RecheckAt time.Time
	// Unknown says that the verdict is not ready only because evidence could not be read. Then nothing begins because of
	// it.
	Unknown bool
	// Booting says that an unknown verdict is not ready until the boot of the node is confirmed, regardless of other
	// evidence.
	Booting bool
	// NeverAppeared says that the verdict is not ready, and that a deciding piece of evidence was not reported at all.
	NeverAppeared bool
	// HeartbeatCounts says that a heartbeat alone may change the verdict or a result, because evidence is stale, from
	// before the node's boot, or from the future.
	HeartbeatCounts bool
	// Results are the pieces of evidence: the conditions, then the requirements, in the rule's order.
	Results []evidence.Result
	// Observed is the argument of the next evaluation.
	Observed Observed
}

// Evaluate returns the verdict of a rule on a node at a time. before is Verdict.Observed of the previous evaluation of
// the same rule on the same node.
func Evaluate(rule *ruleset.Rule, facts *evidence.Facts, before Observed, now time.Time) Verdict {
	facts.Own = rule.Taint
	results := facts.Judge(rule.Spec.Conditions, rule.Requirements, now)
	t := tally{now: now}
	for i := range results {
		t.add(results[i].Judgement)
	}
	v := t.verdict(rule.Spec.AnyOf(), before)
	for _, t := range []*time.Time{&v.Since, &v.Changed} {
		if created := facts.Node.CreationTimestamp.Time; t.Before(created) && !created.After(now) {
			*t = created // the node's clock is behind, or the evidence is from before its registration
		}
	}
	v.Results = results
	return v
}

// Blocking describes the evidence that keeps the verdict from being ready. It is empty if the verdict is ready.
func (v *Verdict) Blocking() string {
	if v.Ready {
		return ""
	}
	var out []string
	for i := range v.Results {
		if !v.Results[i].Satisfied {
			out = append(out, v.Results[i].Message())
		}
	}
	return strings.Join(out, "; ")
}

// Refuted reports whether evidence that was reported shows that the node is not ready. With anyOf, every piece must be
// refuted.
func (v *Verdict) Refuted(anyOf bool) bool {
	refuted := 0
	for i := range v.Results {
		if v.Results[i].Refuted() {
			refuted++
		}
	}
	if anyOf {
		return refuted == len(v.Results)
	}
	return refuted > 0
}

// Warning describes why the evidence is weaker than it looks. It is usually empty. It does not depend on the node.
func (v *Verdict) Warning() string {
	for i := range v.Results {
		if w := v.Results[i].Warning(); w != "" {
			return w
		}
	}
	return ""
}

// tally adds up the judgements of all pieces of evidence, for both values of conditionPolicy, in one pass.
type tally struct {
	now time.Time

	good, bad span
	recheck   time.Time
	missing   bool
	awaits    bool
	unread    int // of them, booting are unread because another rule waits for the boot
	booting   int
}

// span describes since when the satisfied, or the unsatisfied, pieces of evidence are as they are.
type span struct {
	n                int
	earliest, latest time.Time
	undated          bool
	revived          time.Time
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

func (t *tally) add(j condition.Judgement) {
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
	t.awaits = t.awaits || j.Awaits
	switch j.Cause {
	case condition.CauseBooting:
		t.booting++
		t.unread++
	case condition.CauseUnread:
		t.unread++
	}
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
		Ready: ready, RecheckAt: t.recheck, NeverAppeared: !ready && t.missing, HeartbeatCounts: t.awaits,
		Unknown: !ready && t.unread > 0 && (anyOf || t.unread == t.bad.n),
	}
	v.Booting = v.Unknown && t.booting > 0 && (!anyOf || t.booting == t.unread)
	before.Unread = before.Unread && !v.Unknown
	v.Observed = t.observe(ready, decides, before)
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
	if before.Since.After(t.now) { // the clock was set back
		before.Since = t.now
	}
	known := !before.Since.IsZero()
	if before.Unread && known && !before.Assumed {
		before.Since, before.Turned = t.now, true
	}
	before.Unread = false
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
