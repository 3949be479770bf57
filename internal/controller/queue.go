// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue adds names to the work queue of a controller. Before the controller has started, it drops them, because a
// controller reconciles every object when it starts. The zero value is ready for use, and safe for concurrent use.
type Queue struct {
	mu    sync.RWMutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Start implements source.Source.
func (q *Queue) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = queue
	return nil
}

// Add enqueues cluster-scoped objects.
func (q *Queue) Add(names ...string) { q.add(0, names) }

// AddLow enqueues cluster-scoped objects behind all objects of normal priority.
func (q *Queue) AddLow(names ...string) { q.add(handler.LowPriority, names) }

func (q *Queue) add(priority int, names []string) {
	q.mu.RLock()
	queue := q.queue
	q.mu.RUnlock()
	if queue == nil {
		return
	}
	requests := make([]reconcile.Request, len(names))
	for i, name := range names {
		requests[i] = reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
	}
	if pq, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		pq.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, requests...)
		return
	}
	for _, r := range requests {
		queue.Add(r)
	}
}
