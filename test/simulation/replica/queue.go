// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue is a controller's work queue: a set without order. It implements workqueue.TypedRateLimitingInterface.
type queue struct {
	now      func() time.Time
	ready    map[reconcile.Request]bool
	later    map[reconcile.Request]time.Time
	working  map[reconcile.Request]bool
	failures map[reconcile.Request]int
}

func newQueue(now func() time.Time) *queue {
	return &queue{now: now, ready: map[reconcile.Request]bool{}, later: map[reconcile.Request]time.Time{},
		working: map[reconcile.Request]bool{}, failures: map[reconcile.Request]int{}}
}

func (q *queue) Add(r reconcile.Request) {
	delete(q.later, r)
	q.ready[r] = true
}

func (q *queue) AddAfter(r reconcile.Request, d time.Duration) {
	at := q.now().Add(d)
	if have, ok := q.later[r]; q.ready[r] || ok && have.Before(at) {
		return
	}
	q.later[r] = at
}

func (q *queue) AddRateLimited(r reconcile.Request) {
	q.failures[r]++
	q.AddAfter(r, min(20*time.Millisecond<<min(q.failures[r]-1, 20), 15*time.Second))
}

func (q *queue) Forget(r reconcile.Request)            { delete(q.failures, r) }
func (q *queue) NumRequeues(r reconcile.Request) int   { return q.failures[r] }
func (q *queue) Len() int                              { return len(q.ready) }
func (q *queue) Get() (r reconcile.Request, shut bool) { return r, true }
func (q *queue) Done(r reconcile.Request)              { delete(q.working, r) }
func (q *queue) ShutDown()                             {}
func (q *queue) ShutDownWithDrain()                    {}
func (q *queue) ShuttingDown() bool                    { return false }
func (q *queue) result(r reconcile.Request, res reconcile.Result, err error) {
	delete(q.working, r)
	switch {
	case err != nil:
		q.AddRateLimited(r)
	case res.RequeueAfter > 0:
		q.Forget(r)
		q.AddAfter(r, res.RequeueAfter)
	default:
		q.Forget(r)
	}
}

// due are the requests that can be started, by name.
func (q *queue) due() []reconcile.Request {
	for r, at := range q.later {
		if !at.After(q.now()) {
			q.Add(r)
		}
	}
	out := make([]reconcile.Request, 0, len(q.ready))
	for r := range q.ready {
		if !q.working[r] {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b reconcile.Request) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// next is when a request becomes ready; zero, if none does.
func (q *queue) next() time.Time {
	var first time.Time
	for at := range maps.Values(q.later) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// enqueue is what source.Kind makes of a queue: a handler.
type enqueue struct {
	queue *queue
	when  predicate.TypedPredicate[*corev1.Node]
}

var _ toolscache.ResourceEventHandler = enqueue{}

func (e enqueue) add(obj any) {
	e.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj.(client.Object))})
}

func (e enqueue) OnAdd(obj any, initial bool) {
	if n, ok := obj.(*corev1.Node); !ok || e.when == nil ||
		e.when.Create(event.TypedCreateEvent[*corev1.Node]{Object: n, IsInInitialList: initial}) {
		e.add(obj)
	}
}

func (e enqueue) OnUpdate(before, after any) {
	n, ok := after.(*corev1.Node)
	if !ok || e.when == nil {
		e.add(after)
		return
	}
	if e.when.Update(event.TypedUpdateEvent[*corev1.Node]{ObjectOld: before.(*corev1.Node), ObjectNew: n}) {
		e.add(after)
	}
}

func (e enqueue) OnDelete(obj any) {
	if n, ok := obj.(*corev1.Node); !ok || e.when == nil ||
		e.when.Delete(event.TypedDeleteEvent[*corev1.Node]{Object: n}) {
		e.add(obj)
	}
}
