// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"fmt"
	"sync"

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
	// Object is an empty object of the kind.
	Object runtime.Object
	// Namespace is the namespace of pods or DaemonSets.
	Namespace string
	// OfDaemonSets says that the informer keeps only pods of DaemonSets, as evidence.DaemonPod.
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
type ClientInformers struct {
	Clients kubernetes.Interface
	// Wrap changes how objects are listed and watched; nil leaves it as it is.
	Wrap func(*cache.ListWatch) *cache.ListWatch
}

// informer stores the objects of a watch, indexed by node. A reflector fills it.
type informer struct {
	cache.Indexer
	failures
	watch  *Watch
	cancel context.CancelFunc
}

// failures stores why objects cannot be read.
//
//	           list stored, watch open
//	not read ──────────────────────────► read
//	    │ any error                       │ ▲
//	    ▼                permission lost  ▼ │ a newer list stored, watch open
//	  failed ◄─────────────────────────── failed
//
// A list alone does not end a failure, because the permission to watch may still be missing. Nor does an open watch:
// with it, the API server may send a list first, and until this is stored, the objects are those from before the
// failure.
type failures struct {
	changed func()

	mu     sync.Mutex
	synced bool
	failed string
	// stored and watching say what has succeeded since the last failure.
	stored, watching bool
}

const nodeIndex = "node"

// Follow implements Informers.
func (c ClientInformers) Follow(ctx context.Context, w *Watch) Informer {
	ctx, cancel := context.WithCancel(ctx)
	if w.OfDaemonSets {
		s := NewPodStore(w, cancel)
		c.fill(ctx, w, s, &s.failures)
		return s
	}
	i := &informer{failures: failures{changed: w.StateChanged}, watch: w, cancel: cancel,
		Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
			nodeIndex: func(o any) ([]string, error) { return NodesOf(o), nil },
		})}
	c.fill(ctx, w, i, &i.failures)
	return i
}

// fill fills a store for a watch until the context ends.
func (c ClientInformers) fill(ctx context.Context, w *Watch, s cache.ReflectorStore, f *failures) {
	lw := c.listWatch(w)
	if c.Wrap != nil {
		lw = c.Wrap(lw)
	}
	lw = f.told(watch.Patient(lw))
	reflector := cache.NewReflectorWithOptions(lw, w.Object, s, cache.ReflectorOptions{Name: "evidence"})
	go reflector.RunWithContext(ctx)
}

// Transformer implements cache.TransformingStore, so that the first list is never in memory as a whole.
func (i *informer) Transformer() cache.TransformFunc { return i.watch.Strip }

// Add implements cache.ReflectorStore.
func (i *informer) Add(o any) error { return i.Update(o) }

// Update implements cache.ReflectorStore.
func (i *informer) Update(o any) error {
	o, err := i.watch.Strip(o)
	if err != nil {
		return err
	}
	before, known, err := i.Get(o)
	if err == nil {
		err = i.Indexer.Update(o)
	}
	if err != nil {
		return fmt.Errorf("storing evidence: %w", err)
	}
	i.tell(before, known, o)
	return nil
}

// Delete implements cache.ReflectorStore.
func (i *informer) Delete(o any) error {
	o, err := i.watch.Strip(o)
	if err == nil {
		err = i.Indexer.Delete(o)
	}
	if err != nil {
		return fmt.Errorf("dropping evidence: %w", err)
	}
	i.watch.Changed(o)
	return nil
}

// Replace implements cache.ReflectorStore.
func (i *informer) Replace(list []any, version string) error {
	former := map[string]any{}
	for _, key := range i.ListKeys() {
		former[key], _, _ = i.GetByKey(key)
	}
	next := make([]any, 0, len(list))
	for _, o := range list {
		o, err := i.watch.Strip(o)
		if err != nil {
			return err
		}
		next = append(next, o)
	}
	if err := i.Indexer.Replace(next, version); err != nil {
		return fmt.Errorf("storing evidence: %w", err)
	}
	for _, o := range next {
		key, err := cache.MetaNamespaceKeyFunc(o)
		if err != nil { // it is stored: cannot happen
			return fmt.Errorf("storing evidence: %w", err)
		}
		before, known := former[key]
		delete(former, key)
		i.tell(before, known, o)
	}
	for _, gone := range former {
		i.watch.Changed(gone)
	}
	i.succeeded(&i.stored)
	return nil
}

// tell calls Changed for an object that was stored, unless it is as it was before.
func (i *informer) tell(before any, known bool, after any) {
	switch {
	case !known:
		i.watch.Changed(after)
	case version(before) != version(after):
		i.watch.Changed(before, after)
	}
}

// Stop implements Informer.
func (i *informer) Stop() { i.cancel() }

// ByNode implements Informer.
func (i *informer) ByNode(node string) []any {
	objects, err := i.ByIndex(nodeIndex, node)
	if err != nil { // the index exists: cannot happen
		return nil
	}
	return objects
}

// told notes each error of a list or a watch, and each watch that succeeds. An error of a watch that begins with a list
// does not count: the reflector then lists by itself.
func (f *failures) told(inner *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := inner.ListWithContext(ctx, o)
			if err != nil && ctx.Err() == nil {
				f.fail(err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			watching, err := inner.WatchWithContext(ctx, o)
			switch {
			case err == nil:
				f.succeeded(&f.watching)
			case o.SendInitialEvents == nil && ctx.Err() == nil:
				f.fail(err)
			}
			return watching, err
		},
	}
}

// fail stores an error before the first list has succeeded, and the loss of a permission.
func (f *failures) fail(err error) {
	f.mu.Lock()
	if f.synced && !apierrors.IsForbidden(err) {
		f.mu.Unlock()
		return
	}
	f.failed, f.stored, f.watching = explain(err), false, false
	f.mu.Unlock()
	f.changed()
}

// succeeded notes that a list is stored, or that a watch is open.
func (f *failures) succeeded(what *bool) {
	f.mu.Lock()
	*what = true
	ends := f.stored && f.watching && (!f.synced || f.failed != "")
	if ends {
		f.synced, f.failed = true, ""
	}
	f.mu.Unlock()
	if ends {
		f.changed()
	}
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
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// Synced implements Informer.
func (f *failures) Synced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.synced
}

func version(o any) string {
	accessor, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}
