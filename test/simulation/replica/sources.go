// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/sources"
	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
)

// followers start watches of evidence.
type followers struct{ replica *Replica }

// following is a watch of evidence that a rule asked for.
type following struct {
	watch    *sources.Watch
	replica  *Replica
	kind     api.Kind
	key      string
	store    *store
	failed   string
	told     string // what the operator has heard of failed
	compiled int    // how many changes of DaemonSets it has not compiled into its rules yet
	pods     *sources.PodStore
	stored   [][]any // what changed in pods, and the operator has not heard of
}

// kindOfWatch is the kind of the objects of a watch.
func kindOfWatch(w *sources.Watch) api.Kind {
	switch w.Object.(type) {
	case *appsv1.DaemonSet:
		return api.DaemonSets
	case *storagev1.CSINode:
		return api.CSINodes
	case *resourcev1.ResourceSlice:
		return api.ResourceSlices
	}
	return api.Pods
}

// Follow implements sources.Informers.
func (f followers) Follow(_ context.Context, w *sources.Watch) sources.Informer {
	chosen, err := labels.Parse(w.Options.LabelSelector)
	utilruntime.Must(err)
	running, err := fields.ParseSelector(w.Options.FieldSelector)
	utilruntime.Must(err)
	selects := func(o *api.Object) bool {
		pod, ok := o.Meta.(*corev1.Pod)
		return o.Meta.GetNamespace() == w.Namespace && chosen.Matches(labels.Set(o.Meta.GetLabels())) &&
			(!ok || running.Matches(podFields(pod)))
	}
	kind := kindOfWatch(w)
	out := &following{watch: w, replica: f.replica, kind: kind,
		key:   string(kind) + ":" + w.Namespace + "/" + w.Options.LabelSelector,
		store: f.replica.newStore(kind, selects)}
	out.store.follows = out
	if w.OfDaemonSets {
		keeps := *w
		keeps.Changed = func(objects ...any) { out.stored = append(out.stored, objects) }
		out.pods = sources.NewPodStore(&keeps, nil)
	}
	f.replica.World.Watches(kind, w.Namespace, w.Options.LabelSelector)
	q := out.store.subscribe(nil)
	q.handler = toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			out.changed(obj)
			if initial && q.initial == 0 {
				f.replica.after(0, w.StateChanged)
			}
		},
		UpdateFunc: func(before, after any) {
			if before.(client.Object).GetResourceVersion() != after.(client.Object).GetResourceVersion() {
				out.changed(before, after)
			}
		},
		DeleteFunc: func(obj any) { out.changed(obj) },
	}
	out.store.synced = func() {
		if q.initial == 0 {
			f.replica.after(0, w.StateChanged)
		}
	}
	f.replica.evidence[out.key] = out
	f.replica.gather(kind)
	return out
}

// changed tells the operator of a change, in the form in which the watch keeps objects. Of the pods of DaemonSets, it
// hears of what has changed in their store.
func (f *following) changed(versions ...any) {
	if f.pods != nil {
		for _, objects := range f.stored {
			f.watch.Changed(objects...)
		}
		f.stored = nil
		return
	}
	if f.kind == api.DaemonSets {
		for i := range versions {
			versions[i] = evidence.CompileDaemonSet(versions[i].(*appsv1.DaemonSet))
		}
		f.compiled++
		defer f.replica.after(0, func() { f.compiled-- })
	}
	f.watch.Changed(versions...)
}

// compiles reports whether the operator has not compiled all that is in the store into its rules.
func (f *following) compiles() bool {
	return f.kind == api.DaemonSets && (f.compiled > 0 ||
		slices.ContainsFunc(f.store.handlers, func(q *queued) bool { return len(q.pending) > 0 }))
}

// fail notes why the evidence cannot be read; empty, as soon as it can be.
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

// Synced implements sources.Informer.
func (f *following) Synced() bool { return f.store.listed }

// Failed implements sources.Informer.
func (f *following) Failed() string { return f.failed }

// Stop implements sources.Informer.
func (f *following) Stop() {
	if f.replica.evidence[f.key] == f {
		f.replica.heard.stopped[f.key] = f.objects()
		delete(f.replica.evidence, f.key)
		f.replica.gather(f.kind)
	}
}

// objects are those that the watch has brought.
func (f *following) objects() []model.Document {
	out := make([]model.Document, 0, len(f.store.objects))
	for _, o := range f.store.objects {
		out = append(out, o)
	}
	return out
}

// keep stores what a watch has brought in the form in which the operator keeps it; a list replaces everything.
func (f *following) keep(before, after *api.Object) {
	if f == nil || f.pods == nil {
		return
	}
	if after != nil {
		utilruntime.Must(f.pods.Update(typed(after)))
	} else {
		utilruntime.Must(f.pods.Delete(typed(before)))
	}
}

func (f *following) replace(objects []*api.Object) {
	if f == nil || f.pods == nil {
		return
	}
	list := make([]any, len(objects))
	for i, o := range objects {
		list[i] = typed(o)
	}
	utilruntime.Must(f.pods.Replace(list, ""))
}

// ByNode implements sources.Informer.
func (f *following) ByNode(node string) []any {
	if f.pods != nil {
		return f.pods.ByNode(node)
	}
	var out []any
	for _, name := range slices.Sorted(maps.Keys(f.store.objects)) {
		o := f.store.objects[name]
		kept := o.Memo("stripped", func() any {
			kept, err := f.watch.Strip(typed(o).DeepCopyObject())
			utilruntime.Must(err)
			return kept
		})
		if slices.Contains(sources.NodesOf(kept), node) {
			out = append(out, kept)
		}
	}
	return out
}
