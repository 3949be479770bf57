// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/nodegate/nodegate/test/demo/ledger"
)

// Follower feeds a ledger.
type Follower struct {
	stage  *Stage
	ledger *ledger.Ledger
	pods   metav1.ListOptions
	errs   chan error
}

// Follow tells a ledger about all nodes, and about the pods of all namespaces that a label selector selects, from now on
// and until ctx ends. No version of any of them is left out, which informers do not promise.
func (s *Stage) Follow(ctx context.Context, l *ledger.Ledger, podSelector string) (*Follower, error) {
	f := &Follower{stage: s, ledger: l, pods: metav1.ListOptions{LabelSelector: podSelector}, errs: make(chan error, 2)}
	nodes, err := s.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		if err := l.Node(&nodes.Items[i]); err != nil {
			return nil, err
		}
	}
	pods, err := s.Clientset.CoreV1().Pods("").List(ctx, f.pods)
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	if len(pods.Items) > 0 {
		return nil, fmt.Errorf("there are pods %q already: nobody knows since when they are bound", podSelector)
	}
	if err := f.watch(ctx, nodes.ResourceVersion, s.Clientset.CoreV1().Nodes().Watch, metav1.ListOptions{}); err != nil {
		return nil, err
	}
	if err := f.watch(ctx, pods.ResourceVersion, s.Clientset.CoreV1().Pods("").Watch, f.pods); err != nil {
		return nil, err
	}
	return f, nil
}

type watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)

func (f *Follower) watch(ctx context.Context, from string, start watchFunc, filter metav1.ListOptions) error {
	// It goes on from the last version that it has seen when a connection breaks.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = filter.LabelSelector
			return start(ctx, o)
		},
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	go func() {
		for e := range w.ResultChan() {
			if err := f.take(e); err != nil {
				f.errs <- err
				return
			}
		}
	}()
	return nil
}

func (f *Follower) take(e watch.Event) error {
	if e.Type == watch.Error {
		return fmt.Errorf("watching: %w", apierrors.FromObject(e.Object))
	}
	return f.note(e.Type == watch.Deleted, e.Object)
}

func (f *Follower) note(gone bool, object runtime.Object) error {
	switch o := object.(type) {
	case *corev1.Node:
		if gone {
			f.ledger.NodeGone(o.Name)
			return nil
		}
		return f.ledger.Node(o)
	case *corev1.Pod:
		if gone {
			f.ledger.PodGone(o.UID)
			return nil
		}
		return f.ledger.Pod(o)
	}
	return nil
}

// Err is what has ended the following before its time; nil while it goes on.
func (f *Follower) Err() error {
	select {
	case err := <-f.errs:
		return err
	default:
		return nil
	}
}

// Settle waits until the ledger has judged everything up to now.
func (f *Follower) Settle(ctx context.Context) error {
	pods, err := f.stage.Clientset.CoreV1().Pods("").List(ctx, f.pods)
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	nodes, err := f.stage.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	bound := 0
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != "" {
			bound++
		}
	}
	return poll(ctx, 2*time.Minute, func() error {
		if err := f.Err(); err != nil {
			return err
		}
		if s := f.ledger.Snapshot(); s.Bound < bound {
			return fmt.Errorf("the watch has told of %d of %d bound pods", s.Bound, bound)
		}
		settled, err := f.ledger.Settle(nodes.ResourceVersion, nodes.Items)
		if err != nil {
			return err
		}
		if !settled {
			return fmt.Errorf("the watch has not told of the newest nodes")
		}
		return nil
	})
}
