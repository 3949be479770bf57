// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"time"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// stabilization is the name of the evidence in metrics that stands for readySeconds and minHoldSeconds.
const stabilization = "stabilization"

// evidenceNames returns the names of a rule's evidence in metrics, in the order of a verdict's results. They are those
// of node_readiness_blocked_nodes, so that one label joins the two. A rule with conditionPolicy anyOf has none: no
// piece of its evidence blocks a node alone.
func evidenceNames(rule *ruleset.Rule) []string {
	if rule.Spec.AnyOf() {
		return nil
	}
	names := make([]string, 0, len(rule.Spec.Conditions)+len(rule.Requirements)+1)
	for i := range rule.Spec.Conditions {
		names = append(names, rule.Spec.Conditions[i].Type)
	}
	for i := range rule.Requirements {
		names = append(names, "requirement/"+rule.Requirements[i].Name)
	}
	return append(names, stabilization)
}

// account attributes the time that one node took to start under one rule. Each moment since the node's creation is
// attributed to the evidence that was missing then, or to stabilization if none was missing. The operator's own time,
// between the end of both and the release, is attributed to nothing.
type account struct {
	rule    *ruleset.Rule
	created time.Time
	// until is the end of the attributed time.
	until time.Time
	// clear is the time since which no evidence is missing, or zero if some is missing.
	clear    time.Time
	evidence []spent // of evidenceNames
	// missed reports whether the start was counted as one that missed the objective.
	missed bool
}

// spent is the time that a start waited for one piece of evidence.
type spent struct {
	// blocks reports whether the evidence is missing.
	blocks bool
	// blocked is how long it was missing. alone is how long only it was missing.
	blocked, alone time.Duration
	// ended is when it was last missing.
	ended time.Time

	from, to time.Time // when it was missing, within the time that is attributed at once
}

// newAccount starts at the node's creation, when all evidence is missing.
func newAccount(rule *ruleset.Rule, created time.Time) *account {
	a := &account{rule: rule, created: created, until: created, evidence: make([]spent, len(evidenceNames(rule)))}
	for i := range max(0, len(a.evidence)-1) {
		a.evidence[i].blocks = true
	}
	return a
}

// observe attributes the time until now. The results are those of the verdict now; without them, all is as it was.
func (a *account) observe(rule *ruleset.Rule, results []evidence.Result, now time.Time) {
	if rule != a.rule {
		a.edit(rule)
	}
	if len(a.evidence) == 0 || now.Before(a.until) {
		return
	}
	pieces := a.evidence[:len(a.evidence)-1]
	cuts := []time.Time{a.until, now}
	for i := range pieces {
		p := &pieces[i]
		missing := p.blocks
		if i < len(results) {
			missing = !results[i].Satisfied
		}
		p.from, p.to = a.until, a.until
		switch {
		case p.blocks && missing:
			p.to = now
		case p.blocks:
			p.to = a.turned(results[i].Since, now)
			p.ended = p.to
		case missing:
			p.from, p.to = a.turned(results[i].Since, now), now
		}
		p.blocks = missing
		p.blocked += p.to.Sub(p.from)
		cuts = append(cuts, p.from, p.to)
	}
	slices.SortFunc(cuts, time.Time.Compare)
	for i, from := range cuts[:len(cuts)-1] {
		a.divide(pieces, from, cuts[i+1])
	}
	a.until = now
}

// turned returns when a piece of evidence changed. Evidence without a time changed when this process saw the change. If
// it was there at the first observation, it counts as always there.
func (a *account) turned(since, now time.Time) time.Time {
	switch {
	case since.IsZero() && a.until.Equal(a.created), since.Before(a.until) && !since.IsZero():
		return a.until
	case since.IsZero(), since.After(now):
		return now
	}
	return since
}

// divide attributes an interval in which no piece of evidence changed: to the only missing one, or to stabilization.
func (a *account) divide(pieces []spent, from, to time.Time) {
	var only *spent
	n := 0
	for i := range pieces {
		if p := &pieces[i]; !p.from.After(from) && !p.to.Before(to) && p.to.After(p.from) {
			only = p
			n++
		}
	}
	switch {
	case !to.After(from):
	case n > 0:
		a.clear = time.Time{}
		if n == 1 {
			only.alone += to.Sub(from)
		}
	default:
		if a.clear.IsZero() {
			a.clear = from
		}
		if due := a.stable(); due.After(from) {
			s := &a.evidence[len(pieces)]
			s.blocked += min(to.Sub(from), due.Sub(from))
			s.alone = s.blocked
		}
	}
}

// stable returns when stabilization ends, provided that no evidence goes missing until then.
func (a *account) stable() time.Time {
	return a.created.Add(max(a.clear.Sub(a.created)+a.rule.Spec.ReadyWindow(), a.rule.Spec.MinHold()))
}

// last returns the index of the evidence that blocked last, or -1 if none did. readySeconds, which always follow, do
// not count as the last blocker; minHoldSeconds do if they ended later.
func (a *account) last() int {
	last := -1
	for i := range max(0, len(a.evidence)-1) {
		if p := &a.evidence[i]; p.blocked > 0 && (last < 0 || p.ended.After(a.evidence[last].ended)) {
			last = i
		}
	}
	if s := len(a.evidence) - 1; s >= 0 && a.evidence[s].blocked > 0 &&
		(last < 0 || a.created.Add(a.rule.Spec.MinHold()).After(a.evidence[last].ended.Add(a.rule.Spec.ReadyWindow()))) {
		return s
	}
	return last
}

// edit continues with another version of the rule. New evidence counts from now on. Time that was attributed to
// evidence that the rule no longer has is dropped.
func (a *account) edit(rule *ruleset.Rule) {
	before, names := evidenceNames(a.rule), evidenceNames(rule)
	evidence := make([]spent, len(names))
	for i, name := range names {
		if was := slices.Index(before, name); was >= 0 {
			evidence[i] = a.evidence[was]
		}
	}
	a.rule, a.evidence = rule, evidence
}
