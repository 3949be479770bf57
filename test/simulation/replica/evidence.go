// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/test/simulation/api"
)

// followers start watches of pods.
type followers struct{ replica *Replica }

// following is a watch of pods that a rule asked for.
type following struct {
	watch   *evidence.Watch
	replica *Replica
	key     string
	store   *store
	failed  string
	told    string // what the operator has heard of failed
}

// Follow implements evidence.Informers.
func (f followers) Follow(_ context.Context, w *evidence.Watch) evidence.Informer {
	chosen, err := labels.Parse(w.Options.LabelSelector)
	must(err)
	running, err := fields.ParseSelector(w.Options.FieldSelector)
	must(err)
	selects := func(o *api.Object) bool {
		pod := o.Meta.(*corev1.Pod)
		return pod.Namespace == w.Namespace && chosen.Matches(labels.Set(pod.Labels)) && running.Matches(podFields(pod))
	}
	out := &following{watch: w, replica: f.replica, key: w.Namespace + "/" + w.Options.LabelSelector,
		store: newStore(api.Pods, selects)}
	out.store.follows = out
	f.replica.World.Watches(api.Pods, w.Namespace, w.Options.LabelSelector)
	q := out.store.subscribe(nil)
	q.handler = heard{out, q}
	out.store.synced = func() {
		if q.initial == 0 {
			f.replica.background = append(f.replica.background, w.StateChanged)
		}
	}
	f.replica.evidence[out.key] = out
	return out
}

// fail notes why the pods cannot be read; empty, as soon as they can be.
func (f *following) fail(why string) {
	if f.failed == why {
		return
	}
	f.failed = why
	f.replica.after(0, func() {
		f.watch.StateChanged()
		f.replica.after(0, func() { f.told = why }) // as the first one has done the same
	})
}

// Synced implements evidence.Informer.
func (f *following) Synced() bool { return f.store.listed }

// Failed implements evidence.Informer.
func (f *following) Failed() string { return f.failed }

// Stop implements evidence.Informer.
func (f *following) Stop() {
	if f.replica.evidence[f.key] == f {
		delete(f.replica.evidence, f.key)
	}
}

// ByNode implements evidence.Informer.
func (f *following) ByNode(node string) []any {
	var out []any
	for _, name := range slices.Sorted(maps.Keys(f.store.objects)) {
		o := f.store.objects[name]
		pod := o.Memo("stripped", func() any {
			pod, err := f.watch.Strip(typed(o).DeepCopyObject())
			must(err)
			return pod
		})
		if slices.Contains(evidence.NodesOf(pod), node) {
			out = append(out, pod)
		}
	}
	return out
}

// heard is the handler of a watch of pods.
type heard struct {
	f *following
	q *queued
}

func (h heard) tell(objects ...any) { h.f.watch.Changed(objects...) }

func (h heard) OnAdd(obj any, initial bool) {
	h.tell(obj)
	if initial && h.q.initial == 0 {
		h.f.replica.background = append(h.f.replica.background, h.f.watch.StateChanged)
	}
}

func (h heard) OnUpdate(before, after any) {
	if before.(*corev1.Pod).ResourceVersion != after.(*corev1.Pod).ResourceVersion {
		h.tell(before, after)
	}
}

func (h heard) OnDelete(obj any) { h.tell(obj) }
