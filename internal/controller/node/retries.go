// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"container/list"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/internal/state"
	"github.com/nodegate/nodegate/internal/taints"
)

// A write that has failed is tried again after a delay that doubles. Otherwise a policy that refuses the writes of
// 10,000 nodes would be asked hundreds of times a second.
const (
	// firstRetry and lastRetry bound the delay. refusedRetry bounds it if the API server has refused the write: then a
	// person must change something first.
	firstRetry, lastRetry, refusedRetry = 20 * time.Millisecond, 15 * time.Second, 5 * time.Minute
	// retryInterval is the least time between two retries of all nodes, of refused writes and of others alike.
	retryInterval = 50 * time.Millisecond
	// broughtForward is how many nodes are tried at once after a retry has succeeded, because the cause may be gone for
	// all. Since each of them brings others forward, ten thousand nodes follow within seconds.
	broughtForward = 2
)

// retries holds the nodes whose last write has failed. It is safe for concurrent use. The zero value is ready for use.
type retries struct {
	mu    sync.Mutex
	nodes map[string]*retry
	// line has the names of these nodes, in the order in which they have failed.
	line list.List
	// refusals and others are when the next node may be tried: after a refusal, and after another error, which must not
	// wait for those.
	refusals, others time.Time
}

// retry is a write that has failed.
type retry struct {
	write     string // what was to be written
	delay     time.Duration
	at        time.Time // when it is tried again
	hasTurn   bool      // at needs no turn any more
	recheck   time.Time // when the decisions about the node may change
	refused   bool      // a person must change something before the API server accepts it
	failure   failure
	err       error
	placement *list.Element
}

// failed records a failure.
func (r *retries) failed(node string, failed *retry, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil {
		r.nodes = map[string]*retry{}
	}
	failed.delay = firstRetry
	if before := r.nodes[node]; before != nil && before.write == failed.write {
		failed.delay = 2 * before.delay
	}
	r.drop(node, now)
	failed.refused = failed.failure.rejected && !apierrors.IsTooManyRequests(failed.err) &&
		!apierrors.IsUnauthorized(failed.err)
	failed.delay = min(failed.delay, failed.longest())
	failed.at, failed.placement = now.Add(failed.delay), r.line.PushBack(node)
	r.nodes[node] = failed
}

// longest is the longest delay after such a failure.
func (e *retry) longest() time.Duration {
	if e.refused {
		return refusedRetry
	}
	return lastRetry
}

// bound makes a retry and the next turn due if they are further ahead than any delay, with the turns of all nodes: the
// clock has been set back. Otherwise they would wait until it shows the former time again.
func (r *retries) bound(e *retry, now time.Time) {
	latest := now.Add(e.longest() + time.Duration(r.line.Len())*retryInterval)
	if turn := r.turn(e); turn.After(latest) {
		*turn = now
	}
	if e.at.After(latest) {
		e.at, e.hasTurn = now, false
	}
}

// wait returns the last failure of the same write of a node if it is too early for another try, and otherwise nil. A
// node that is to be written in another way is tried at once.
func (r *retries) wait(node, write string, recheck, now time.Time) *retry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.nodes[node]
	if e == nil || e.write != write {
		return nil
	}
	e.recheck = recheck
	r.bound(e, now)
	if !e.at.After(now) && !e.hasTurn {
		e.hasTurn = true
		turn := r.turn(e)
		if e.at = *turn; e.at.Before(now) {
			e.at = now
		}
		*turn = e.at.Add(retryInterval)
	}
	if e.at.After(now) {
		return e
	}
	return nil
}

// done drops a node that needs no retry, and returns the nodes to try at once for that.
func (r *retries) done(node string, now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.drop(node, now) {
		return nil
	}
	var names []string
	for at := r.line.Front(); at != nil && len(names) < broughtForward; at = at.Next() {
		name, _ := at.Value.(string)
		e := r.nodes[name]
		if !e.at.After(now) {
			continue
		}
		r.returnTurn(e, now)
		e.at, e.hasTurn = now, true
		names = append(names, name)
	}
	return names
}

// forget drops a deleted node.
func (r *retries) forget(node string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(node, now)
}

func (r *retries) drop(node string, now time.Time) bool {
	e := r.nodes[node]
	if e == nil {
		return false
	}
	r.returnTurn(e, now)
	r.line.Remove(e.placement)
	delete(r.nodes, node)
	return true
}

// turn returns when the next node with such an error may be tried.
func (r *retries) turn(e *retry) *time.Time {
	if e.refused {
		return &r.refusals
	}
	return &r.others
}

// returnTurn moves the next turn up by the one that a node does not use.
func (r *retries) returnTurn(e *retry, now time.Time) {
	if e.hasTurn && e.at.After(now) {
		turn := r.turn(e)
		*turn = turn.Add(-retryInterval)
	}
}

// RateLimiter returns when a node is reconciled again after an error.
func (r *Reconciler) RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return &limiter{retries: &r.retries, clock: r.Clock, TypedRateLimiter: workqueue.
		NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)}
}

// limiter follows the retries of writes. Its embedded limiter is for other errors.
type limiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	retries *retries
	clock   clock.PassiveClock
}

// When implements workqueue.TypedRateLimiter.
func (l *limiter) When(req reconcile.Request) time.Duration {
	now := l.clock.Now()
	l.retries.mu.Lock()
	defer l.retries.mu.Unlock()
	e := l.retries.nodes[req.Name]
	if e != nil {
		l.retries.bound(e, now)
	}
	if e == nil || !e.at.After(now) {
		return l.TypedRateLimiter.When(req)
	}
	wait := e.at.Sub(now)
	if !e.recheck.IsZero() {
		wait = min(wait, max(e.recheck.Sub(now), time.Second))
	}
	return wait
}

// postpone records the decisions about a node that is not written, because the same write has failed a short time ago.
func (r *Reconciler) postpone(p *pass, outcome taints.Outcome, last *retry) (reconcile.Result, error) {
	r.record(p, p.node, outcome, &last.failure)
	return reconcile.Result{}, tooEarly(last)
}

func tooEarly(last *retry) error { return fmt.Errorf("too early for a retry after: %w", last.err) }

// unwritten says of a patch what it was to change, and on which node: another node may get its name. The times in
// records are different at each try. The states of the node are part of it, because a rule without a taint changes only
// its record.
func unwritten(node *corev1.Node, decisions []state.Decision, changes []taints.Change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "node %s\n", node.UID)
	for i := range changes {
		c := &changes[i]
		fmt.Fprintf(&b, "%s %s", c.Operation, c.Taint.ToString())
		if c.Rule != nil {
			fmt.Fprintf(&b, " %s", c.Rule.UID)
		}
		b.WriteByte('\n')
	}
	for i := range decisions {
		if d := &decisions[i]; d.Record != d.Was.Record {
			fmt.Fprintf(&b, "%s %s\n", d.Rule.UID, d.State)
		}
	}
	return b.String()
}
