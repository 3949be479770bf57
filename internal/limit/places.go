// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// placeKept is how long the places of deleted nodes stay in use at least, if no new node becomes ready.
const placeKept = time.Hour

// places are the uses of the limit. A node uses a place while the rule holds it, if it is in service, and while the
// published condition is False on it. The place of a node that is deleted meanwhile stays in use. Otherwise a remediator
// that deletes such nodes, and a broken reporter, would take away the whole fleet, one node after another.
//
//	          held, or False              deleted              a new node becomes ready under the rule, or
//	┌──────┐ ───────────────► ┌────────┐ ─────────► ┌─────────┐ an hour after the last deletion no node waits
//	│ Free │                  │ In use │            │ Deleted │ ─────────────────────────────────────────────► Free
//	└──────┘ ◄─────────────── └────────┘            └─────────┘
//	          released, or True
//
// All places of deleted nodes are free after a change of the selector, and while the rule is in dry-run or suspended.
type places struct {
	kept           bool // the places of deleted nodes count
	inUse, deleted int
	// deletedAt is when the last of the deleted nodes was deleted.
	deletedAt time.Time
}

// place reports whether the node uses a place.
func (n Node) place() bool { return n.Counted && n.Claimed || n.Marked }

// Delete keeps the place of a node that is deleted. unknown says that the outcome of the last write to it is not known:
// a granted claim may be on the node.
func (l *Limit) Delete(n int32, node Node, unknown bool, now time.Time) {
	_, reserved := l.reserved[n]
	if l.kept && (node.place() || reserved && unknown) {
		l.deleted, l.deletedAt = l.deleted+1, now
	}
}

// Succeed frees the place of a deleted node, because a new node has become ready under the rule.
func (l *Limit) Succeed() {
	if l.deleted > 0 {
		l.free(l.deleted - 1)
	}
}

// free leaves so many places of deleted nodes in use.
func (p *places) free(left int) {
	if p.deleted = left; left == 0 {
		p.deletedAt = time.Time{}
	}
}

// FreePlaces frees the places of deleted nodes if their time is over and no node waits for the limit. It returns whether
// it did, and when to call it again, or 0 if nothing changes by the passage of time.
func (l *Limit) FreePlaces(now time.Time) (freed bool, again time.Duration) {
	if l.deleted == 0 {
		return false, 0
	}
	if again = l.deletedAt.Add(placeKept).Sub(now); again > 0 {
		return false, again
	}
	if l.waiting.Len()+len(l.denied) > 0 {
		return false, 0
	}
	l.free(0)
	return true, 0
}

// Restore reads the places of deleted nodes from the rule's status. All nodes have been counted. A place that is no
// longer in use was that of a deleted node. gone is how many nodes there may be that were deleted since.
func (l *Limit) Restore(status *v1alpha1.LimitStatus, gone int, now time.Time) {
	if !l.kept {
		return
	}
	l.deleted = int(status.Deleted)
	if at := status.LastDeletionTime; at != nil {
		l.deletedAt = at.Time
	}
	if lost := min(int(status.InUse)-l.inUse, gone); lost > 0 {
		l.deleted, l.deletedAt = l.deleted+lost, now
	}
}

// Status returns the uses of the limit for the rule's status, or nil if they do not count.
func (l *Limit) Status() *v1alpha1.LimitStatus {
	if !l.kept {
		return nil
	}
	out := &v1alpha1.LimitStatus{InUse: int32(l.inUse), Deleted: int32(l.deleted)} //nolint:gosec // of nodes
	if !l.deletedAt.IsZero() {
		out.LastDeletionTime = &metav1.Time{Time: l.deletedAt.Truncate(time.Second)}
	}
	return out
}
