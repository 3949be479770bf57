// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/limit"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/state"
)

// Limits are how nodes use a rule's limits.
type Limits struct {
	// Released is the number of nodes that maxUnavailable is a share of, MaxUnavailable the number of nodes that it
	// allows, and Waiting the number of nodes that it keeps from being held.
	Released, MaxUnavailable, Waiting int
	// Places are the uses of the limit, or nil if the rule has none or they do not count.
	Places *v1alpha1.LimitStatus
	// Reached are the limits that keep nodes waiting.
	Reached []string
	// WaitingNodes are the names of the first waiting nodes, the longest unready first.
	WaitingNodes []string
	// Unmarked is the number of nodes on which the limits keep the published condition from being False, and
	// UnmarkedNodes are the names of the first of them.
	Unmarked      int
	UnmarkedNodes []string
}

// limits returns how nodes use the rule's limits.
func (s *ruleState) limits() Limits {
	l := Limits{Released: s.limit.InService(), MaxUnavailable: s.limit.Allowed(), Places: s.limit.Status(),
		Reached: s.limit.Reached()}
	l.Waiting, l.WaitingNodes = s.waiting(limit.Claims)
	if s.rule.Spec.Publish != nil { // else nodes only wait until they are evaluated by this version
		l.Unmarked, l.UnmarkedNodes = s.waiting(limit.Marks)
	}
	return l
}

// waiting returns how many nodes wait for a use of the limit, and the names of the first of them.
func (s *ruleState) waiting(u limit.Use) (nodes int, names []string) {
	nodes, first := s.limit.Waiting(u, fewNames)
	for _, n := range first {
		names = append(names, s.nodes.names[n])
	}
	return nodes, names
}

// newLimit returns the state of a rule's limit. A rule that requires a suspended one goes on as it was when that one is
// resumed, so that it keeps the places of deleted nodes.
func newLimit(rule *ruleset.Rule, n *nodes) *limit.Limit {
	kept := rule.Mode != ruleset.Deleting && !rule.Spec.DryRun && !rule.Spec.Suspend
	return limit.New(rule.Limit, kept, func(a, b int32) bool { return n.names[a] < n.names[b] })
}

// counts returns what the limit counts of an entry.
func (e *Entry) counts() limit.Node {
	return limit.Node{Counted: e.Current.Counted, Claimed: e.Current.Claimed, Marked: e.Current.MarkedFalse}
}

// settle tells the limit what an entry means for it. The entry is nil if the rule does not concern the node.
func (s *ruleState) settle(n int32, version string, e *Entry, now time.Time) {
	var claim, mark limit.Fate
	if e != nil {
		failed, published := e.State == v1alpha1.NodeStateFailed, e.PublishProblem == ""
		claim = limit.Fate{Refused: e.Reason == state.ReasonOverBudget, Unwritten: failed && published && e.Unwritten ||
			e.NoRoom}
		claim.Unknown = failed && published && !claim.Unwritten
		mark = limit.Fate{Refused: e.Unmarked, Unwritten: (failed || !published) && e.Unwritten || e.NoRoom ||
			e.unmarkable()}
		mark.Unknown = (failed || !published) && !mark.Unwritten
	}
	s.limit.Settle(n, version, claim, mark, now)
}

// unmarkable reports whether the node's annotations have no room to name the condition that the rule publishes. Then
// the operator does not write the condition: it would stay after the rule.
func (e *Entry) unmarkable() bool {
	return e.Warning == AnnotationsFull && e.Current.Record.Published != e.Rule.Spec.Publishes()
}

// succeed counts the places of deleted nodes, before the entry of a node is replaced. A new node frees one when its
// record first says that it became ready: one that cannot be recorded would free one at each pass.
func (s *ruleState) succeed(n int32, before *pair, e *Entry, fresh bool) {
	if e != nil && e.firstReady() && (fresh || !before.firstReady) &&
		int64(s.nodes.created[n]) >= s.rule.InForceSince.Unix() {
		s.limit.Succeed(e.Current.Domains)
	}
}

// firstReady reports whether the node was new under the rule, and became ready.
func (e *Entry) firstReady() bool { return !e.Current.Record.FirstReady().IsZero() }

// unknownRule is why a rule that was deleted meanwhile holds nothing.
const unknownRule = "the rule is not known"

// Reserve asks the limits of a rule whether a node in service may use them. It returns why not, or "". Record ends a
// grant.
func (f *Fleet) Reserve(rule types.UID, node string, r limit.Request) (why string) {
	why = unknownRule
	f.limit(rule, func(s *ruleState) { why = s.limit.Reserve(f.add(node), r, f.now()) })
	return why
}

// InTime reports whether a node may still use what Reserve has granted: a rate allows it for a time only.
func (f *Fleet) InTime(rule types.UID, node string, u limit.Use) (inTime bool) {
	f.limit(rule, func(s *ruleState) { inTime = s.limit.InTime(u, f.add(node), f.now()) })
	return inTime
}

// limit calls a function with the state of a rule, if the rule is known.
func (f *Fleet) limit(rule types.UID, do func(*ruleState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.state(rule); s != nil {
		do(s)
	}
}

// Order returns the times of claims for the status of a rule with a rate, and when to order again, or 0. Issue lets
// these claims be made when that is written. The times stay as they are while the rule is not enforced, also if that is
// since Material.
func (f *Fleet) Order(rule *ruleset.Rule, before *v1alpha1.RateStatus) (o limit.Order, again time.Duration) {
	o.Status = before
	f.limit(rule.UID, func(s *ruleState) {
		if s.rule == rule && rule.Mode == ruleset.Enforced {
			now := f.now()
			if o = s.limit.Order(before, now); !o.Next.IsZero() {
				again = o.Next.Sub(now)
			}
		}
	})
	return o, again
}

// Issue lets the claims of an order be made, and enqueues the nodes that wait for them. It does nothing if the rule was
// edited meanwhile.
func (f *Fleet) Issue(rule *ruleset.Rule, o *limit.Order) {
	var enqueue []string
	f.limit(rule.UID, func(s *ruleState) {
		if s.rule == rule {
			s.limit.Issue(o)
			enqueue = s.wake(nil)
		}
	})
	f.tell(nil, enqueue)
}

// FreePlaces frees the places of a rule's deleted nodes if their time is over and no node waits for the limit. It
// returns when to call it again, or 0 if nothing changes by the passage of time.
func (f *Fleet) FreePlaces(rule types.UID) (again time.Duration) {
	var enqueue []string
	f.limit(rule, func(s *ruleState) {
		var freed bool
		if freed, again = s.limit.FreePlaces(f.now()); freed {
			enqueue = s.wake(nil)
		}
	})
	f.tell(nil, enqueue)
	return again
}

// wake appends the names of waiting nodes that the limit now allows, the longest unready first.
func (s *ruleState) wake(names []string) []string {
	for _, n := range s.limit.Wake(nil) {
		names = append(names, s.nodes.names[n])
	}
	return names
}

// Restore gives the fleet the statuses of rules before the SetRules with which it learns of these rules. Places then
// stay in use across a restart, also those of nodes that were deleted while no operator was running.
func (f *Fleet) Restore(rules []v1alpha1.NodeReadinessRule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statuses = make(map[types.UID]*v1alpha1.NodeReadinessRuleStatus, len(rules))
	for i := range rules {
		f.statuses[rules[i].UID] = &rules[i].Status
	}
}

// restore reads the places of a rule from its status. All nodes have been read. A place that is no longer in use was
// that of a deleted node if the status names such a node. The status may be older than the last release of a node, and
// than the last claim.
func (s *ruleState) restore(status *v1alpha1.NodeReadinessRuleStatus, nodes []*corev1.Node) {
	if status == nil || status.Limit == nil || status.InForce == nil ||
		status.InForce.SelectorHash != s.rule.SelectorHash {
		return
	}
	gone, later := s.since(status, nodes)
	if status.Truncated {
		gone = math.MaxInt
	}
	s.limit.Restore(status.Limit, gone, later, s.now())
}

// since returns how many nodes that were not ready by a status do not exist any more, and the nodes that use a place
// now, and surely did not by that status: an exempt node may have used one by its published condition.
func (s *ruleState) since(status *v1alpha1.NodeReadinessRuleStatus, nodes []*corev1.Node) (gone int, later []int32) {
	listed := map[string]*v1alpha1.NodeEvaluation{}
	for i := range status.NodeEvaluations {
		if e := &status.NodeEvaluations[i]; e.State != "" { // else it is of a node that the rule does not match
			listed[e.NodeName] = e
		}
	}
	for i := range status.FailedNodes {
		e := &status.FailedNodes[i]
		listed[e.NodeName] = &v1alpha1.NodeEvaluation{State: v1alpha1.NodeStateFailed,
			LastEvaluationTime: e.LastEvaluationTime}
	}
	for _, e := range listed {
		if e.State != v1alpha1.NodeStateReady {
			gone++
		}
	}
	for _, node := range nodes {
		n := s.nodes.number[node.Name]
		e := listed[node.Name]
		same := e != nil && !node.CreationTimestamp.After(e.LastEvaluationTime.Time)
		if same && e.State != v1alpha1.NodeStateReady {
			gone--
		}
		p := s.at(n)
		used := same && e.State != v1alpha1.NodeStateReady && (e.State != v1alpha1.NodeStateExempt || p.Marked)
		if p.Counted && p.Claimed && !used && (same || !status.Truncated) {
			later = append(later, n)
		}
	}
	return gone, later
}
