// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
)

// deleted is the result of a start that ended because the node was deleted.
const deleted = "deleted"

// caughtUp is how long a new leader ignores deletions of nodes. The former leader may have counted a deletion that this
// one's watch brings late, and a deleted node has no record of that.
const caughtUp = time.Minute

// startups counts the starts of nodes: how each ended, how long it took, and what it waited for. It only keeps nodes
// that are starting. A start is counted once, when the record of its end is on the node.
type startups struct {
	mu    sync.Mutex
	nodes map[string]*start
	// led is when this process began to reconcile nodes.
	led time.Time
	// objective is Reconciler.StartupObjective, from setRules.
	objective time.Duration
}

// start is a node that is starting.
type start struct {
	uid types.UID
	// written reports whether this process has written the node. Then no former leader can have seen its deletion.
	written  bool
	accounts map[types.UID]*account
}

// observe updates the accounts of a node that is starting.
func (s *startups) observe(node *corev1.Node, decisions []state.Decision, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.led.IsZero() {
		s.led = now
	}
	of := s.nodes[node.Name]
	if of != nil && of.uid != node.UID {
		s.forget(node.Name, now)
		of = nil
	}
	for i := range decisions {
		d := &decisions[i]
		if d.Startup == state.NotStarting {
			continue
		}
		if of == nil {
			of = &start{uid: node.UID, accounts: map[types.UID]*account{}}
			if s.nodes == nil {
				s.nodes = map[string]*start{}
			}
			s.nodes[node.Name] = of
		}
		a := of.accounts[d.Rule.UID]
		if a == nil {
			a = newAccount(d.Rule, node.CreationTimestamp.Time)
			of.accounts[d.Rule.UID] = a
		}
		a.missed = a.missed || d.Was.Record.Missed
		a.observe(d.Rule, d.Verdict.Results, now)
	}
}

// settle counts the starts that the decisions about a node have ended. The decisions must be on the node.
func (s *startups) settle(node string, rules *ruleset.Set, decisions []state.Decision, wrote bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.nodes[node]
	if of == nil {
		return
	}
	of.written = of.written || wrote
	left := make(map[types.UID]bool, len(of.accounts))
	for uid := range of.accounts {
		left[uid] = true
	}
	for i := range decisions {
		d := &decisions[i]
		a := of.accounts[d.Rule.UID]
		if a == nil {
			continue
		}
		delete(left, d.Rule.UID)
		if d.Startup == state.Starting {
			if d.Record.Missed && !a.missed {
				a.missed = true
				startupObjective.WithLabelValues(d.Rule.Name, met[false]).Inc()
			}
			continue
		}
		if result, over := resultOf(d); over {
			a.count(result, s.objective, now)
			delete(of.accounts, d.Rule.UID)
		}
	}
	for uid := range left { // the rule is gone, or does not select the node any more
		if rule := rules.Rule(uid); rule != nil && rule.Mode == ruleset.Enforced {
			of.accounts[uid].count(string(state.Excluded), s.objective, now)
		}
		delete(of.accounts, uid)
	}
	if len(of.accounts) == 0 {
		delete(s.nodes, node)
	}
}

// resultOf reports whether a decision ends a start, and the result, which is empty if it is not counted. A rule that is
// suspended, in dry-run or frozen ends no start. When it is in force again, the node counts as existing.
func resultOf(d *state.Decision) (result string, over bool) {
	switch was := &d.Was; {
	case d.Startup != state.NotStarting:
		return string(d.Startup), true
	case d.Rule.Mode == ruleset.Deleting:
		return "", true
	case d.Rule.Mode != ruleset.Enforced:
		return "", false
	case was.Completed || was.Record.Started() && !was.Record.Existing:
		return "", true // the patch was carried out although its answer was lost, or a former leader's was
	case was.Matches && state.Holds(d.Rule) && !was.Existing && !d.Record.Existing:
		return "", false // the pods could not be listed: whether the node was in service is not known yet
	}
	return string(state.Excluded), true
}

// forgetNode counts the starts of a deleted node.
func (s *startups) forgetNode(node string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(node, now)
}

func (s *startups) forget(node string, now time.Time) {
	of := s.nodes[node]
	if of == nil {
		return
	}
	delete(s.nodes, node)
	if !of.written && now.Sub(s.led) < caughtUp {
		return
	}
	for _, a := range of.accounts {
		a.observe(a.rule, nil, now)
		a.count(deleted, s.objective, now)
	}
}

// ExportEvidence creates the counters of the evidence of rules with the value 0, and drops those of evidence that rules
// no longer have.
func ExportEvidence(before, after *ruleset.Set) {
	for _, rule := range after.All() {
		was, names := before.Named(rule.Name), evidenceNames(rule)
		if was == rule {
			continue
		}
		for _, name := range names {
			for _, counter := range byEvidence {
				counter.WithLabelValues(rule.Name, name)
			}
		}
		if was == nil {
			continue
		}
		for _, name := range evidenceNames(was) {
			for _, counter := range byEvidence {
				if !slices.Contains(names, name) {
					counter.DeleteLabelValues(rule.Name, name)
				}
			}
		}
	}
}

// byEvidence are the counters by rule and evidence.
var byEvidence = []*prometheus.CounterVec{blockedSeconds, soleBlockerSeconds, lastBlocker}

// setRules drops accounts of deleted rules, and counters of evidence that rules no longer have.
func (s *startups) setRules(before, after *ruleset.Set, objective time.Duration) {
	ExportEvidence(before, after)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objective = objective
	for name, of := range s.nodes {
		for uid := range of.accounts {
			if after.Rule(uid) == nil {
				delete(of.accounts, uid)
			}
		}
		if len(of.accounts) == 0 {
			delete(s.nodes, name)
		}
	}
}

// met holds the values of the label met.
var met = map[bool]string{true: "true", false: "false"}

// count counts an ended start.
func (a *account) count(result string, objective time.Duration, now time.Time) {
	if result == "" {
		return
	}
	rule := a.rule.Name
	startupResults.WithLabelValues(rule, result).Inc()
	if result == string(state.Excluded) {
		return
	}
	ready := result == string(state.Ready)
	if ready {
		startupDuration.WithLabelValues(rule).Observe(max(0, now.Sub(a.created).Seconds()))
	}
	if objective > 0 && !a.missed {
		startupObjective.WithLabelValues(rule, met[ready && now.Before(a.created.Add(objective))]).Inc()
	}
	names := evidenceNames(a.rule)
	for i := range a.evidence {
		if p := &a.evidence[i]; p.blocked > 0 {
			blockedSeconds.WithLabelValues(rule, names[i]).Add(p.blocked.Seconds())
			if p.alone > 0 {
				soleBlockerSeconds.WithLabelValues(rule, names[i]).Add(p.alone.Seconds())
			}
		}
	}
	if last := a.last(); ready && last >= 0 {
		lastBlocker.WithLabelValues(rule, names[last]).Inc()
	}
}
