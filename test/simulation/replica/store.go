// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/nodegate/nodegate/internal/watch"
	"github.com/nodegate/nodegate/test/simulation/api"
)

// store is what a watch of one kind, or of a selection of its objects, has brought to a process.
type store struct {
	kind     api.Kind
	selects  func(*api.Object) bool
	listed   bool
	cut      bool       // it has to list again
	resumes  bool       // it has to connect again, and brings nothing meanwhile
	oldest   int64      // the version of a first list of any age; 0: the present one
	follows  *following // of pods
	at       int64      // the version up to which it knows
	cuts     int
	objects  map[string]*api.Object
	handlers []*queued
	synced   func() // called after the first list
	lean     toolscache.TransformFunc
}

// queued is a handler with what it has not heard of yet. Nothing orders two handlers.
type queued struct {
	handler toolscache.ResourceEventHandler
	pending []notice
	initial int // of those, how many are of the list
	armed   bool
	listens func(notice) // is told before it
}

type notice struct{ before, after *api.Object }

// HasSynced reports whether the handler has heard of all objects of the first list.
func (q *queued) HasSynced() bool { return q.armed && q.initial == 0 }

func (q *queued) HasSyncedChecker() toolscache.DoneChecker { return nil }

func newStore(kind api.Kind, selects func(*api.Object) bool) *store {
	return &store{kind: kind, selects: selects, objects: map[string]*api.Object{}}
}

// newStore is a store whose first list an API server answers that may be behind what the former process had seen.
func (r *Replica) newStore(kind api.Kind, selects func(*api.Object) bool) *store {
	s := newStore(kind, selects)
	if kind == api.Rules { // as the operator's cache
		s.lean = watch.LeanRules()
	}
	if r.oldest > 0 {
		s.oldest = r.oldest
		if former := r.former[kind]; former > s.oldest && r.server.Newer(kind, s.oldest) {
			r.World.Met("an API server is behind what the former process had seen", string(kind))
		}
	}
	return s
}

func (s *store) subscribe(h toolscache.ResourceEventHandler) *queued {
	q := &queued{handler: h}
	s.handlers = append(s.handlers, q)
	if s.listed {
		s.arm(q)
	}
	return q
}

// arm gives a handler the objects that are there.
func (s *store) arm(q *queued) {
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		q.pending = append(q.pending, notice{after: s.objects[name]})
	}
	q.initial, q.armed = len(q.pending), true
}

// behind reports whether the API server has something that the store lacks.
func (s *store) behind(server *api.Server) bool {
	if s.lists(server) {
		return s.served(server)
	}
	return server.Newer(s.kind, s.at)
}

// lists reports whether the store lists before it watches again, and served whether it can.
func (s *store) lists(server *api.Server) bool {
	return s.stale() || s.kind == api.Rules && s.cuts != server.Cuts()
}

func (s *store) served(server *api.Server) bool { return s.kind != api.Rules || server.Serves() }

// stale reports whether the store has to list.
func (s *store) stale() bool { return !s.listed || s.cut }

// pull brings up to n events into the store, all with a negative n. It first lists, where it has not or must again.
func (s *store) pull(server *api.Server, n int) {
	if s.lists(server) {
		if s.served(server) {
			s.relist(server)
		}
		return
	}
	if s.resumes {
		s.resumes = false
		return
	}
	for _, e := range server.Since(s.kind, s.at) {
		if n == 0 {
			return
		}
		n--
		s.at = e.Version
		s.apply(e.Before, e.After)
	}
}

func (s *store) apply(before, after *api.Object) {
	name := cmp.Or(after, before).Key()
	before = s.objects[name]
	if after != nil && s.selects != nil && !s.selects(after) {
		after = nil // what leaves the selection is deleted
	}
	switch {
	case after != nil:
		s.keep(after)
	case before != nil:
		delete(s.objects, name)
	default:
		return
	}
	s.follows.keep(before, after)
	for _, q := range s.handlers {
		q.pending = append(q.pending, notice{before, after})
	}
}

// keep stores an object.
func (s *store) keep(o *api.Object) {
	if s.lean != nil {
		_, err := s.lean(typed(o))
		utilruntime.Must(err)
	}
	s.objects[o.Key()] = o
}

// relist replaces what is in the store: an update for each object, also of the same version; what was deleted and
// created again since is one update.
func (s *store) relist(server *api.Server) {
	objects, version := server.List(s.kind)
	first := !s.listed
	if first && s.oldest > 0 && anyAge() {
		objects, version = server.ListAt(s.kind, s.oldest), s.oldest
	}
	s.listed, s.cut, s.resumes, s.at, s.cuts = true, false, false, version, server.Cuts()
	if s.selects != nil {
		objects = slices.DeleteFunc(objects, func(o *api.Object) bool { return !s.selects(o) })
	}
	s.follows.replace(objects)
	gone := maps.Clone(s.objects)
	for _, o := range objects {
		delete(gone, o.Key())
		if first {
			s.keep(o)
		} else {
			s.apply(nil, o)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		s.apply(gone[name], nil)
	}
	if first {
		for _, q := range s.handlers {
			s.arm(q)
		}
		if s.synced != nil {
			s.synced()
		}
	}
}

// anyAge reports whether first lists can be of any age, as reflectors ask for. The operator asks for consistent ones.
func anyAge() bool {
	var asked metav1.ListOptions
	lw := watch.Patient(&toolscache.ListWatch{
		ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
			asked = options
			return &corev1.NodeList{}, nil
		},
	})
	_, _ = lw.ListWithContext(context.Background(), metav1.ListOptions{ResourceVersion: "0"})
	return asked.ResourceVersion == "0"
}

// hear tells a handler of its next event.
func (q *queued) hear() {
	n := q.pending[0]
	q.pending = q.pending[1:]
	initial := q.initial > 0
	if initial {
		q.initial--
	}
	if q.listens != nil {
		q.listens(n)
	}
	switch {
	case n.before == nil:
		q.handler.OnAdd(stripped(n.after), initial)
	case n.after == nil:
		q.handler.OnDelete(stripped(n.before))
	default:
		q.handler.OnUpdate(stripped(n.before), stripped(n.after))
	}
}
