// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// placeKept is how long the places of deleted nodes stay in use at least, if no new node becomes ready.
const placeKept = time.Hour

// places are the uses of maxUnavailable. A node uses a place while the rule holds it, if it is in service, and while
// the published condition is False on it. The place of a node that is deleted meanwhile stays in use. Otherwise a
// remediator that deletes such nodes, and a broken reporter, would take away the whole fleet, one node after another.
//
//	          held, or False              deleted              a new node becomes ready under the rule, or
//	┌──────┐ ───────────────► ┌────────┐ ─────────► ┌─────────┐ an hour after the last deletion no node waits
//	│ Free │                  │ In use │            │ Deleted │ ─────────────────────────────────────────────► Free
//	└──────┘ ◄─────────────── └────────┘            └─────────┘
//	          released, or True
//
// All places of deleted nodes are free after a change of the selector, and while the rule is in dry-run or suspended.
type places struct {
	inUse, deleted int
	// deletedAt is when the last of the deleted nodes was deleted.
	deletedAt time.Time
}

// keepsPlaces reports whether the places of deleted nodes count for a rule.
func keepsPlaces(rule *ruleset.Rule) bool {
	return rule.Limited() && (rule.Mode == ruleset.Enforced || rule.Mode == ruleset.Frozen)
}

// place reports whether the node uses a place.
func (p *pair) place() bool { return p.outcome != none && (p.counted && p.claimed || p.marked) }

// succeed counts the places of deleted nodes, before the entry of a node is replaced.
func (s *ruleState) succeed(n int32, before *pair, e *Entry, fresh bool, now time.Time) {
	p := &s.limit.places
	if fresh && keepsPlaces(s.rule) && (before.place() || s.mayHold(n, before)) {
		p.deleted, p.deletedAt = p.deleted+1, now
	}
	isNew := fresh || before.outcome == none || !before.released
	if p.deleted > 0 && e != nil && e.State == v1alpha1.NodeStateReady && isNew &&
		int64(s.nodes.created[n]) >= s.rule.InForceSince.Unix() {
		p.free(p.deleted - 1)
	}
}

// mayHold reports whether a claim may be on the node, after a write with an unknown outcome.
func (s *ruleState) mayHold(n int32, p *pair) bool {
	_, reserved := s.limit.reserved[n]
	return reserved && p.outcome != none && s.outcomes[p.outcome].State == v1alpha1.NodeStateFailed
}

// free leaves so many places of deleted nodes in use.
func (p *places) free(left int) {
	if p.deleted = left; left == 0 {
		p.deletedAt = time.Time{}
	}
}

// FreePlaces frees the places of a rule's deleted nodes if their time is over and no node waits for the limit. It
// returns when to call it again, or 0 if nothing changes by the passage of time.
func (f *Fleet) FreePlaces(rule types.UID, now time.Time) time.Duration {
	f.mu.Lock()
	var enqueue []string
	var again time.Duration
	if s := f.state(rule); s != nil && s.limit.deleted > 0 {
		if again = s.limit.deletedAt.Add(placeKept).Sub(now); again <= 0 {
			again = 0
			if s.limit.waiting.Len()+len(s.limit.denied) == 0 {
				s.limit.free(0)
				enqueue = s.wake(nil)
			}
		}
	}
	f.mu.Unlock()
	f.tell(nil, enqueue)
	return again
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
// that of a deleted node if the status names such a node. The status may be older than the last release of a node.
func (s *ruleState) restore(status *v1alpha1.NodeReadinessRuleStatus, nodes []*corev1.Node, now time.Time) {
	if status == nil || status.Limit == nil || status.InForce == nil ||
		status.InForce.SelectorHash != s.rule.SelectorHash || !keepsPlaces(s.rule) {
		return
	}
	p := &s.limit.places
	p.deleted = int(status.Limit.Deleted)
	if at := status.Limit.LastDeletionTime; at != nil {
		p.deletedAt = at.Time
	}
	lost := int(status.Limit.InUse) - p.inUse
	if !status.Truncated {
		lost = min(lost, gone(status, nodes))
	}
	if lost > 0 {
		p.deleted, p.deletedAt = p.deleted+lost, now
	}
}

// gone returns how many nodes that were not ready by a status do not exist any more.
func gone(status *v1alpha1.NodeReadinessRuleStatus, nodes []*corev1.Node) int {
	since := map[string]time.Time{}
	for i := range status.NodeEvaluations {
		if e := &status.NodeEvaluations[i]; e.State != v1alpha1.NodeStateReady {
			since[e.NodeName] = e.LastEvaluationTime.Time
		}
	}
	for i := range status.FailedNodes {
		since[status.FailedNodes[i].NodeName] = status.FailedNodes[i].LastEvaluationTime.Time
	}
	for _, node := range nodes {
		if at, listed := since[node.Name]; listed && !node.CreationTimestamp.After(at) {
			delete(since, node.Name)
		}
	}
	return len(since)
}

// places returns the uses of the limit for the rule's status, or nil if they do not count.
func (s *ruleState) places() *v1alpha1.LimitStatus {
	if !keepsPlaces(s.rule) {
		return nil
	}
	p := &s.limit.places
	out := &v1alpha1.LimitStatus{InUse: int32(p.inUse), Deleted: int32(p.deleted)} //nolint:gosec // of nodes
	if !p.deletedAt.IsZero() {
		out.LastDeletionTime = &metav1.Time{Time: p.deletedAt.Truncate(time.Second)}
	}
	return out
}
