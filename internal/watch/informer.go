// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// interval is the shortest time between two attempts to reach the API server. The longest is twice as long.
const interval = time.Second

// NewInformer makes an informer that reconnects within two seconds. It is a NewInformer of controller-runtime's
// cache.Options. By client-go's own backoff, an informer may wait for 30 seconds after the API server is back.
func NewInformer(lw cache.ListerWatcher, object runtime.Object, resync time.Duration,
	indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(Patient(lw), object, resync, indexers)
}

// Follow calls changed with each object of a type that is created or updated, and gone with each that is deleted. The
// function that it returns reports whether all objects that existed at the start have been seen.
func Follow[T client.Object](ctx context.Context, informers ctrlcache.Cache, empty T, changed,
	gone func(T)) (cache.InformerSynced, error) {
	informer, err := informers.GetInformer(ctx, empty, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", empty, err)
	}
	registration, err := informer.AddEventHandler(handler(changed, gone))
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", empty, err)
	}
	return registration.HasSynced, nil
}

func handler[T client.Object](changed, gone func(T)) cache.ResourceEventHandler {
	typed := func(f func(T), o any) {
		if deleted, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = deleted.Obj
		}
		if object, ok := o.(T); ok {
			f(object)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { typed(changed, o) }, UpdateFunc: func(_, o any) { typed(changed, o) },
		DeleteFunc: func(o any) { typed(gone, o) },
	}
}

// Patient repeats each request until the API server can be reached, and returns any answer to the caller. Its first
// list is a consistent read, as the streams of newer API servers are: one of any age can lack the claims that the
// process before this one has made, so that a rule would exceed its limit.
func Patient(lw cache.ListerWatcher) *cache.ListWatch {
	inner := cache.ToListerWatcherWithContext(lw)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if options.ResourceVersion == "0" {
				options.ResourceVersion = ""
			}
			return ask(ctx, options, inner.ListWithContext)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return ask(ctx, options, inner.WatchWithContext)
		},
	}
}

func ask[T any](ctx context.Context, options metav1.ListOptions, call func(context.Context, metav1.ListOptions) (T,
	error)) (T, error) {
	for {
		answer, err := call(ctx, options)
		if err == nil || !away(err) || ctx.Err() != nil {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(wait.Jitter(interval, 1)):
		}
	}
}

// away reports whether no API server answered: there was no connection, it ended without an answer, as that to a load
// balancer without a backend does, or a proxy answered in its place.
func away(err error) bool {
	var connection *net.OpError
	return errors.As(err, &connection) || utilnet.IsProbableEOF(err) || apierrors.IsServiceUnavailable(err)
}
