// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// observer sees the nodes by a watch of its own, and when their taints change.
type observer struct {
	client kubernetes.Interface
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	index   map[string]int
	taints  []int  // of ours, node by node
	records []bool // whether the node bears a record of the operator
	version uint64 // of the latest event
	err     error

	want    int // taints on each node
	missing int
	reached []time.Time // when a node was first seen with what is wanted
	changes int         // of taints, since expect
	all     chan struct{}
}

func newObserver(c kubernetes.Interface, names []string) *observer {
	o := &observer{client: c, index: map[string]int{}, taints: make([]int, len(names)), records: make([]bool, len(names))}
	for i, name := range names {
		o.index[name] = i
	}
	return o
}

// start begins to watch. The context is for the start only.
func (o *observer) start(ctx context.Context) error {
	list, err := o.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	now := time.Now()
	for i := range list.Items {
		o.see(&list.Items[i], now)
	}
	ctx, o.cancel = context.WithCancel(context.Background())
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		if err := o.follow(ctx, list.ResourceVersion); err != nil && ctx.Err() == nil {
			o.mu.Lock()
			o.err = fmt.Errorf("watching nodes: %w", err)
			o.mu.Unlock()
		}
	}()
	return nil
}

func (o *observer) stop() {
	if o.cancel != nil {
		o.cancel()
		<-o.done
	}
}

// follow watches on where the API server ends a watch, as it does after half an hour or more.
func (o *observer) follow(ctx context.Context, version string) error {
	for ctx.Err() == nil {
		w, err := o.client.CoreV1().Nodes().Watch(ctx,
			metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err != nil {
			return err
		}
		for e := range w.ResultChan() {
			now := time.Now()
			if e.Type == watch.Error {
				w.Stop()
				return apierrors.FromObject(e.Object)
			}
			node, ok := e.Object.(*corev1.Node)
			if !ok {
				continue
			}
			version = node.ResourceVersion
			if e.Type != watch.Bookmark {
				o.see(node, now)
			}
		}
	}
	return nil
}

func (o *observer) see(node *corev1.Node, now time.Time) {
	ours, record := 0, false
	for i := range node.Spec.Taints {
		if strings.HasPrefix(node.Spec.Taints[i].Key, taintKeyStem) {
			ours++
		}
	}
	for key := range node.Annotations {
		record = record || strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix)
	}
	version, _ := strconv.ParseUint(node.ResourceVersion, 10, 64)

	o.mu.Lock()
	defer o.mu.Unlock()
	o.version = max(o.version, version)
	i, known := o.index[node.Name]
	if !known {
		return
	}
	o.records[i] = record
	if o.taints[i] == ours {
		return
	}
	o.taints[i] = ours
	o.changes++
	if o.all != nil && ours == o.want && o.reached[i].IsZero() {
		o.reached[i] = now
		if o.missing--; o.missing == 0 {
			close(o.all)
		}
	}
}

// expect begins to look for the change of all nodes to a number of taints.
func (o *observer) expect(taints int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.want, o.missing, o.changes = taints, len(o.taints), 0
	o.reached, o.all = make([]time.Time, len(o.taints)), make(chan struct{})
}

// wait waits until every node has changed as expected, and returns when each did.
func (o *observer) wait(ctx context.Context) ([]time.Time, error) {
	o.mu.Lock()
	all := o.all
	o.mu.Unlock()
	for {
		select {
		case <-all:
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.reached, nil
		case <-ctx.Done():
			o.mu.Lock()
			defer o.mu.Unlock()
			return nil, fmt.Errorf("%d of %d nodes have not got to %d taints: %w", o.missing, len(o.taints), o.want,
				errors.Join(o.err, ctx.Err()))
		}
	}
}

// seenChanges is how often a node's taints have changed since expect, and on how many nodes they are not as expected.
func (o *observer) seenChanges() (changes, wrong int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.taints {
		if n != o.want {
			wrong++
		}
	}
	return o.changes, wrong
}

// waitFor waits until the watch has come to a resource version.
func (o *observer) waitFor(ctx context.Context, version uint64) error {
	for {
		o.mu.Lock()
		seen, err := o.version, o.err
		o.mu.Unlock()
		switch {
		case err != nil:
			return err
		case seen >= version:
			return nil
		case !sleep(ctx, 20*time.Millisecond):
			return fmt.Errorf("waiting for the watch to come to %d, it is at %d: %w", version, seen, ctx.Err())
		}
	}
}

// stained is how many nodes bear taints or records.
func (o *observer) stained() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for i := range o.taints {
		if o.taints[i] > 0 || o.records[i] {
			n++
		}
	}
	return n
}
