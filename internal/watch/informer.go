// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// interval is the least time between two attempts to reach a server that is away; the most is twice as long.
const interval = time.Second

// NewInformer makes an informer for the NewInformer of a cache's options.
func NewInformer(lw cache.ListerWatcher, object runtime.Object, resync time.Duration,
	indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(Patient(lw), object, resync, indexers)
}

// Patient retries each request until the API server can be reached. Any answer goes to the caller.
func Patient(lw cache.ListerWatcher) *cache.ListWatch {
	inner := cache.ToListerWatcherWithContext(lw)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return ask(ctx, options, inner.ListWithContext)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return ask(ctx, options, inner.WatchWithContext)
		},
	}
}

func ask[T any](ctx context.Context, options metav1.ListOptions, call func(context.Context, metav1.ListOptions) (T,
	error)) (T, error) {
	for said := false; ; said = true {
		answer, err := call(ctx, options)
		if err == nil || !away(err) || ctx.Err() != nil {
			return answer, err
		}
		if !said { // the informer's own handler of errors does not hear of this one
			klog.FromContext(ctx).Error(err, "The API server cannot be reached, trying again every second or two")
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(wait.Jitter(interval, 1)):
		}
	}
}

// away reports whether no server answered: no connection was established, or a proxy reported that.
func away(err error) bool {
	var connection *net.OpError
	return errors.As(err, &connection) || apierrors.IsServiceUnavailable(err)
}
