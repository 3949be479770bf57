// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"iter"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodegate/nodegate/test/simulation/api"
)

// Work starts on the k-th request that is ready. It reports false if there is none.
func (r *Replica) Work(k int) bool {
	type ready struct {
		controller *controller
		request    reconcile.Request
	}
	var all []ready
	for _, c := range r.controllers {
		if r.begun && !r.Deposed && c.source.HasSynced() {
			for _, request := range c.queue.due() {
				all = append(all, ready{c, request})
			}
		}
	}
	if len(all) == 0 {
		return false
	}
	next := all[k%len(all)]
	delete(next.controller.queue.ready, next.request)
	next.controller.queue.working[next.request] = true
	r.start(next.controller, next.request)
	return true
}

func (r *Replica) start(c *controller, request reconcile.Request) {
	t := &task{controller: c, request: request}
	if last := len(r.idle) - 1; last >= 0 {
		t.runs, r.idle = r.idle[last], r.idle[:last]
	} else {
		t.runs = newCoroutine(r.ctx)
	}
	t.runs.task = t
	r.tasks[t] = true
	if c.name == "node" {
		r.look(request.Name)
	}
	r.resume(t)
}

// newCoroutine starts a coroutine. It runs its task until the next write, which it yields, and nil when the task is
// done; then it waits for another task, since its stack has grown.
func newCoroutine(ctx context.Context) *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(*Write) bool) {
		defer func() {
			if p := recover(); p != nil {
				if _, ok := p.(killed); !ok {
					panic(p)
				}
			}
		}()
		c.yield = yield
		deepen(-1)
		for more := true; more; more = yield(nil) {
			t := c.task
			result, err := t.controller.reconciler.Reconcile(ctx, t.request)
			t.controller.queue.done(t.request, result, err)
		}
	})
	return c
}

// deepen makes room on the stack of a coroutine at once. Otherwise the stack is copied several times while it grows.
//
//go:noinline
func deepen(at int) byte {
	if at < 0 {
		return 0 // without clearing the room
	}
	var room [30 << 10]byte
	return room[at]
}

// resume lets a task go on until its next write, or its end.
func (r *Replica) resume(t *task) {
	if !r.tasks[t] {
		return
	}
	r.current, r.Told = t, nil
	w, _ := t.runs.next()
	r.current = nil
	if w == nil {
		delete(r.tasks, t)
		r.idle = append(r.idle, t.runs)
		return
	}
	r.Parked = append(r.Parked, w)
}

// Idle reports whether nothing is left to do before the next deadline: no event, no request, no write.
func (r *Replica) Idle() bool {
	if !r.Up {
		return true
	}
	if len(r.Parked) > 0 || len(r.background) > 0 || r.others.pends() ||
		r.Leads && !r.Deposed && len(r.rules.Woken()) > 0 {
		return false
	}
	for _, k := range api.Kinds {
		for _, s := range r.watches[k] {
			if s.behind(r.server) && (s.follows == nil || s.follows.failed == "" || !r.World.Forbidden()) {
				return false
			}
			for _, q := range s.handlers {
				if len(q.pending) > 0 {
					return false
				}
			}
		}
	}
	for _, c := range r.controllers {
		if r.begun && !r.Deposed && len(c.queue.due()) > 0 {
			return false
		}
	}
	return true
}

// Next is the process's next deadline; zero, if it has none.
func (r *Replica) Next() time.Time {
	var all []time.Time
	for _, t := range r.timers {
		all = append(all, t.at)
	}
	all = append(all, r.others.looksAt())
	for _, c := range r.controllers {
		if !r.Deposed {
			all = append(all, c.queue.next())
		}
	}
	return earliest(all...)
}

// servedRetry is how long the operator waits after it could not read what serves a rule.
const servedRetry = time.Minute + 5*time.Second

// CouldNotRead reports whether the process could not read lately what serves rules.
func (r *Replica) CouldNotRead() bool {
	return !r.unreadAt.IsZero() && r.World.Now().Sub(r.unreadAt) < servedRetry
}

// podsRetry is how long the operator waits after it could not list the pods of a node.
const podsRetry = 31 * time.Second

// Retries reports whether something has failed, and is tried again, but for requests of some names.
func (r *Replica) Retries(but map[string]bool) bool {
	return r.Unread > 0 || r.World.Now().Sub(r.unreadAt) < podsRetry || len(r.timers) > 0 ||
		slices.ContainsFunc(r.controllers, func(c *controller) bool {
			for request := range c.queue.failed {
				if !but[request.Name] {
					return true
				}
			}
			return false
		})
}

// Current reports whether the process has heard of all nodes and rules as they are now.
func (r *Replica) Current() bool {
	pends := func(q *queued) bool { return len(q.pending) > 0 }
	for _, k := range []api.Kind{api.Nodes, api.Rules, api.AdmissionRules, api.CRDs} {
		for _, s := range r.watches[k] {
			if s.resumes || s.behind(r.server) || slices.ContainsFunc(s.handlers, pends) {
				return false
			}
		}
	}
	return len(r.timers) == 0 && r.others.current()
}

// Listed reports whether the leader has listed the rules for admission as it knows them.
func (r *Replica) Listed() bool { return r.begun && len(r.rules.Woken()) == 0 }

// Process tells processes apart.
func (r *Replica) Process() int { return r.process }

// Started is when the process started.
func (r *Replica) Started() time.Time { return r.started }
