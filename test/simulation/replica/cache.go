// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/controller/node"
	"github.com/nodegate/nodegate/internal/watch"
	"github.com/nodegate/nodegate/test/simulation/api"
)

// typed is an object as a client reads it. It is shared by all readers, and must not be changed.
func typed(o *api.Object) client.Object {
	return o.Memo("typed", func() any {
		var out client.Object
		switch o.Kind {
		case api.Rules:
			rule := &v1alpha1.NodeReadinessRule{}
			rule.Spec = *o.Shared("typed spec", func() any {
				var of struct {
					Spec v1alpha1.NodeReadinessRuleSpec
				}
				o.Into(&of)
				return &of.Spec
			}).(*v1alpha1.NodeReadinessRuleSpec)
			o.IntoBut(rule, "spec")
			return rule
		case api.AdmissionRules:
			out = &admissionv1alpha1.AdmissionRules{}
		case api.KeptEndpoints:
			out = &endpointsv1alpha1.KeptEndpoints{}
		default:
			return o.Meta.(client.Object)
		}
		o.Into(out)
		return out
	}).(client.Object)
}

// stripped is an object as the cache keeps it.
func stripped(o *api.Object) client.Object {
	if o.Kind != api.Nodes {
		return typed(o)
	}
	return o.Memo("stripped", func() any {
		out, err := node.Strip(typed(o).DeepCopyObject())
		utilruntime.Must(err)
		return out
	}).(client.Object)
}

// kindOf is the kind that an object or a list of a client is about.
func kindOf(obj any) api.Kind {
	switch o := obj.(type) {
	case *corev1.Node, *corev1.NodeList:
		return api.Nodes
	case *corev1.Pod, *corev1.PodList:
		return api.Pods
	case *v1alpha1.NodeReadinessRule, *v1alpha1.NodeReadinessRuleList:
		return api.Rules
	case *admissionv1alpha1.AdmissionRules:
		return api.AdmissionRules
	case *appsv1.DaemonSetList:
		return api.DaemonSets
	case *endpointsv1alpha1.KeptEndpoints:
		return api.KeptEndpoints
	case *apiextensionsv1.CustomResourceDefinition:
		return api.CRDs
	case schema.ObjectKind:
		if strings.HasPrefix(o.GroupVersionKind().Kind, "NodeClaim") {
			return api.NodeClaims
		}
	}
	panic(fmt.Sprintf("the simulation does not serve %T", obj))
}

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

// informer is a store as controller-runtime has it.
type informer struct {
	cache.Informer
	store   *store
	replica *Replica
}

func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration,
	error) {
	q := i.store.subscribe(h)
	q.listens = i.replica.heard.note
	return q, nil
}

func (i informer) HasSynced() bool { return i.store.listed }

// informers is the cache of a process.
type informers struct {
	cache.Cache
	replica *Replica
}

func (c informers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer,
	error) {
	return informer{store: c.replica.stores[kindOf(obj)], replica: c.replica}, nil
}

func (c informers) WaitForCacheSync(context.Context) bool { return true }

// Get reads from the store. A write of this process is waited for.
func (c informers) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	s := c.replica.caughtUp(c.replica.cached(kindOf(out)))
	return found(s.kind, s.objects[toolscache.NamespacedNameAsObjectName(key).String()], key, out, stripped)
}

func (c informers) List(_ context.Context, out client.ObjectList, options ...client.ListOption) error {
	s := c.replica.caughtUp(c.replica.cached(kindOf(out)))
	objects := make([]*api.Object, 0, len(s.objects))
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		objects = append(objects, s.objects[name])
	}
	return list(objects, out, stripped, options)
}

// cached notes that a kind is read from the cache, or written by its client: that starts a watch of the whole kind.
func (r *Replica) cached(kind api.Kind) api.Kind {
	if kind != api.Pods && kind != api.NodeClaims {
		return kind
	}
	r.World.Watches(kind, "", "")
	r.stores[kind] = r.newStore(kind, nil)
	if kind == api.NodeClaims {
		r.watches[kind] = []*store{r.stores[kind]}
	}
	return kind
}

// live reads past the cache.
type live struct{ replica *Replica }

func (l live) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	if around, err := l.around(out); around {
		return err
	}
	kind := kindOf(out)
	if err := l.replica.unread(kind); err != nil {
		return err
	}
	object := l.replica.server.Get(kind, toolscache.NamespacedNameAsObjectName(key).String())
	l.replica.claimed(object)
	return found(kind, object, key, out, typed)
}

func (l live) List(_ context.Context, out client.ObjectList, options ...client.ListOption) error {
	if leases, ok := out.(*coordinationv1.LeaseList); ok {
		return l.leases(leases)
	}
	kind := kindOf(out)
	if err := l.replica.unread(kind); err != nil {
		return err
	}
	objects, _ := l.replica.server.List(kind)
	for _, o := range objects {
		if kind == api.Rules && l.replica.current == nil && l.replica.heard.rules[o.Key()] != nil { // after a foreign CRD
			l.replica.heard.rule(o)
		}
		l.replica.claimed(o)
	}
	return list(objects, out, typed, options)
}

// unread lets a live read fail, if it is to.
func (r *Replica) unread(k api.Kind) error {
	if k == api.Rules && !r.server.Serves() {
		return apierrors.NewNotFound(k.Resource(), "")
	}
	if r.Unread == 0 {
		return nil
	}
	r.Unread--
	r.unreadAt = r.World.Now()
	r.World.Met("a live read fails", string(k))
	return apierrors.NewInternalError(fmt.Errorf("etcd has no leader"))
}

// claimed notes a NodeClaim that was read.
func (r *Replica) claimed(o *api.Object) {
	if o != nil && o.Kind == api.NodeClaims {
		r.heard.claims[o.Key()] = o
	}
}

func found(kind api.Kind, o *api.Object, key client.ObjectKey, out client.Object,
	read func(*api.Object) client.Object) error {
	if o == nil {
		return apierrors.NewNotFound(kind.Resource(), key.Name)
	}
	from := read(o)
	if kind != api.Nodes { // cached nodes are not copied
		from = from.DeepCopyObject().(client.Object)
	}
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(from).Elem())
	return nil
}

func list(objects []*api.Object, out client.ObjectList, read func(*api.Object) client.Object,
	options []client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	items := make([]runtime.Object, 0, len(objects))
	for _, object := range objects {
		from := read(object)
		if pod, ok := from.(*corev1.Pod); ok && o.FieldSelector != nil && !o.FieldSelector.Matches(podFields(pod)) {
			continue
		}
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(from.GetLabels())) {
			continue
		}
		items = append(items, from)
	}
	return meta.SetList(out, items)
}

func podFields(pod *corev1.Pod) fields.Set {
	return fields.Set{"spec.nodeName": pod.Spec.NodeName, "status.phase": string(pod.Status.Phase),
		"metadata.name": pod.Name}
}
