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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"

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
	utilruntime.Must(err)
	running, err := fields.ParseSelector(w.Options.FieldSelector)
	utilruntime.Must(err)
	selects := func(o *api.Object) bool {
		pod := o.Meta.(*corev1.Pod)
		return pod.Namespace == w.Namespace && chosen.Matches(labels.Set(pod.Labels)) && running.Matches(podFields(pod))
	}
	out := &following{watch: w, replica: f.replica, key: w.Namespace + "/" + w.Options.LabelSelector,
		store: f.replica.newStore(api.Pods, selects)}
	out.store.follows = out
	f.replica.World.Watches(api.Pods, w.Namespace, w.Options.LabelSelector)
	q := out.store.subscribe(nil)
	q.handler = toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			w.Changed(obj)
			if initial && q.initial == 0 {
				f.replica.after(0, w.StateChanged)
			}
		},
		UpdateFunc: func(before, after any) {
			if before.(*corev1.Pod).ResourceVersion != after.(*corev1.Pod).ResourceVersion {
				w.Changed(before, after)
			}
		},
		DeleteFunc: func(obj any) { w.Changed(obj) },
	}
	out.store.synced = func() {
		if q.initial == 0 {
			f.replica.after(0, w.StateChanged)
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
			utilruntime.Must(err)
			return pod
		})
		if slices.Contains(evidence.NodesOf(pod), node) {
			out = append(out, pod)
		}
	}
	return out
}
