// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/nodegate/nodegate/internal/watch"
)

// Informers starts watches of evidence. The operator uses ClientInformers.
type Informers interface {
	// Follow starts a watch. The watch ends with the context, or with Stop. Follow must not call a function of the watch,
	// because the caller holds a lock.
	Follow(ctx context.Context, w *Watch) Informer
}

// Watch describes one watch.
type Watch struct {
	// Object is an empty object of the kind: a Pod, a DaemonSet, a CSINode or a ResourceSlice.
	Object runtime.Object
	// Namespace is the namespace of pods or DaemonSets.
	Namespace string
	// OfDaemonSets says that the informer keeps only pods of DaemonSets, as readiness.DaemonPod.
	OfDaemonSets bool
	// Options has the selectors.
	Options metav1.ListOptions
	// Strip makes an object smaller before it is cached: it drops fields that no requirement needs.
	Strip cache.TransformFunc
	// Changed is called with an object that was created or deleted, or with an object before and after an update.
	Changed func(objects ...any)
	// StateChanged is called when the result of Synced or Failed has changed.
	StateChanged func()
}

// Informer is a running watch. It is safe for concurrent use.
type Informer interface {
	// Synced reports whether all objects that existed at the start have been read.
	Synced() bool
	// Failed returns why the objects cannot be read: the first list failed, or the permission was removed. "" means that
	// they can.
	Failed() string
	// ByNode returns the objects of a node, as by NodesOf.
	ByNode(node string) []any
	// Stop ends the watch.
	Stop()
}

// ClientInformers starts informers of client-go.
type ClientInformers struct{ Clients kubernetes.Interface }

// informer is an informer of client-go, indexed by node.
type informer struct {
	cache.SharedIndexInformer
	failures
	cancel context.CancelFunc
}

// failures stores why objects cannot be read.
type failures struct {
	changed func()
	failed  atomic.Pointer[string]
}

const nodeIndex = "node"

// Follow implements Informers.
func (c ClientInformers) Follow(ctx context.Context, w *Watch) Informer {
	if w.OfDaemonSets {
		return c.followDaemonPods(ctx, w)
	}
	ctx, cancel := context.WithCancel(ctx)
	i := &informer{cancel: cancel, failures: failures{changed: w.StateChanged}}
	i.SharedIndexInformer = watch.NewInformer(i.told(c.listWatch(w), func(error) {}), w.Object, 0, cache.Indexers{
		nodeIndex: func(o any) ([]string, error) { return NodesOf(o), nil },
	})
	synced, err := i.prepare(w)
	if err != nil { // it has not been started: cannot happen
		i.fail(err, false)
		return i
	}
	go i.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), synced) {
			w.StateChanged()
		}
	}()
	return i
}

// prepare adds the functions of the watch. The function that it returns reports whether Changed has seen all objects.
func (i *informer) prepare(w *Watch) (cache.InformerSynced, error) {
	err := errors.Join(i.SetTransform(w.Strip),
		i.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			i.fail(err, i.Synced())
		}))
	if err != nil {
		return nil, err
	}
	registration, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { w.Changed(o) },
		UpdateFunc: func(before, after any) {
			if version(before) != version(after) {
				w.Changed(before, after)
			}
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			w.Changed(o)
		},
	})
	if err != nil {
		return nil, err
	}
	return registration.HasSynced, nil
}

// told calls a function with each error of a list or a watch. A watch that succeeds ends a failure. A list does not:
// the permission to watch may still be missing.
func (f *failures) told(lw cache.ListerWatcher, failed func(error)) *cache.ListWatch {
	inner := cache.ToListerWatcherWithContext(lw)
	tell := func(ctx context.Context, err error) {
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := inner.ListWithContext(ctx, o)
			tell(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			watching, err := inner.WatchWithContext(ctx, o)
			tell(ctx, err)
			if err == nil && f.failed.Swap(nil) != nil {
				f.changed()
			}
			return watching, err
		},
	}
}

// fail stores an error before the first list has succeeded, and the loss of a permission.
func (f *failures) fail(err error, synced bool) {
	if synced && !apierrors.IsForbidden(err) {
		return
	}
	text := explain(err)
	f.failed.Store(&text)
	f.changed()
}

// explain returns why a kind of evidence cannot be read. Only ResourceSlices can be missing: a list of the other kinds
// is not refused with "not found" by any version of Kubernetes.
func explain(err error) string {
	if apierrors.IsNotFound(err) {
		return "the API server does not serve ResourceSlices of resource.k8s.io/v1, which need Kubernetes 1.34"
	}
	return err.Error()
}

// Failed implements Informer.
func (f *failures) Failed() string {
	if text := f.failed.Load(); text != nil {
		return *text
	}
	return ""
}

// Synced implements Informer.
func (i *informer) Synced() bool { return i.HasSynced() }

// Stop implements Informer.
func (i *informer) Stop() { i.cancel() }

// ByNode implements Informer.
func (i *informer) ByNode(node string) []any {
	objects, err := i.GetIndexer().ByIndex(nodeIndex, node)
	if err != nil { // the index exists: cannot happen
		return nil
	}
	return objects
}

func version(o any) string {
	accessor, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

// listWatch lists and watches what a watch describes.
func (c ClientInformers) listWatch(w *Watch) *cache.ListWatch {
	switch w.Object.(type) {
	case *corev1.Pod:
		pods := c.Clients.CoreV1().Pods(w.Namespace)
		return listWatch(pods.List, pods.Watch, &w.Options)
	case *appsv1.DaemonSet:
		sets := c.Clients.AppsV1().DaemonSets(w.Namespace)
		return listWatch(sets.List, sets.Watch, &w.Options)
	case *storagev1.CSINode:
		nodes := c.Clients.StorageV1().CSINodes()
		return listWatch(nodes.List, nodes.Watch, &w.Options)
	case *resourcev1.ResourceSlice:
		slices := c.Clients.ResourceV1().ResourceSlices()
		return listWatch(slices.List, slices.Watch, &w.Options)
	}
	panic(fmt.Sprintf("no evidence is read from a %T", w.Object))
}

func listWatch[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
	watchAll func(context.Context, metav1.ListOptions) (apiwatch.Interface, error),
	selected *metav1.ListOptions,
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = selected.LabelSelector, selected.FieldSelector
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector, o.FieldSelector = selected.LabelSelector, selected.FieldSelector
			return watchAll(ctx, o)
		},
	}
}
