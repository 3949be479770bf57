// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"maps"
	"slices"
	"strings"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue is a controller's work queue: a set without order. Of workqueue.TypedRateLimitingInterface it implements what
// the controllers and their sources call.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	now     func() time.Time
	ready   map[reconcile.Request]bool
	later   map[reconcile.Request]time.Time
	working map[reconcile.Request]bool
	failed  map[reconcile.Request]bool // to be tried again
}

func newQueue(now func() time.Time) *queue {
	return &queue{now: now, ready: map[reconcile.Request]bool{}, later: map[reconcile.Request]time.Time{},
		working: map[reconcile.Request]bool{}, failed: map[reconcile.Request]bool{},
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, 15*time.Second)}
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

func (q *queue) AddRateLimited(r reconcile.Request) { q.AddAfter(r, q.limiter.When(r)) }

// done ends the work on a request.
func (q *queue) done(r reconcile.Request, res reconcile.Result, err error) {
	delete(q.working, r)
	if err != nil {
		q.failed[r] = true
		q.AddRateLimited(r)
		return
	}
	delete(q.failed, r)
	q.limiter.Forget(r)
	if res.RequeueAfter > 0 {
		q.AddAfter(r, res.RequeueAfter)
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
	slices.SortFunc(out, func(a, b reconcile.Request) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// next is when a request becomes ready; zero, if none does.
func (q *queue) next() time.Time {
	return earliest(slices.Collect(maps.Values(q.later))...)
}

// earliest is the first of some times; zero if there is none.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, at := range times {
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// enqueue is what source.Kind makes of a queue: a handler.
func enqueue[T client.Object](q *queue, when ...predicate.TypedPredicate[T]) toolscache.ResourceEventHandler {
	relevant := predicate.And(when...)
	add := func(obj T, ok bool) {
		if ok {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			e := event.TypedCreateEvent[T]{Object: obj.(T), IsInInitialList: initial}
			add(e.Object, relevant.Create(e))
		},
		UpdateFunc: func(before, after any) {
			e := event.TypedUpdateEvent[T]{ObjectOld: before.(T), ObjectNew: after.(T)}
			add(e.ObjectNew, relevant.Update(e))
		},
		DeleteFunc: func(obj any) {
			e := event.TypedDeleteEvent[T]{Object: obj.(T)}
			add(e.Object, relevant.Delete(e))
		},
	}
}
