// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// observer sees the nodes by a watch of its own, and when their taints change.
type observer struct {
	cancel   context.CancelFunc
	watching sync.WaitGroup

	mu      sync.Mutex
	index   map[string]int
	taints  []int  // of ours, node by node
	records []bool // whether the node has a record of the operator
	err     error

	want    int // taints on each node
	missing int
	reached []time.Time // when a node was first seen with what is wanted
	changes int         // of taints, since expect
	all     chan struct{}
}

func newObserver(names []string) *observer {
	o := &observer{index: map[string]int{}, taints: make([]int, len(names)), records: make([]bool, len(names))}
	for i, name := range names {
		o.index[name] = i
	}
	return o
}

// start begins to watch.
func (o *observer) start(c *cluster.Cluster) {
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	o.watching.Go(func() {
		// An API server that is busy ends the watch, and may no longer know its version: then all nodes are listed again.
		for ctx.Err() == nil {
			ended, err := c.Watch(ctx, &corev1.NodeList{}, o.see)
			if err == nil {
				err = <-ended
			}
			if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				o.fail(err)
				return
			}
		}
	})
}

func (o *observer) stop() {
	if o.cancel != nil {
		o.cancel()
		o.watching.Wait()
	}
}

func (o *observer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

// ourTaints counts the taints of contestants.
func ourTaints(node *corev1.Node) (n int) {
	for i := range node.Spec.Taints {
		if strings.HasPrefix(node.Spec.Taints[i].Key, taintKeyStem) {
			n++
		}
	}
	return n
}

func (o *observer) see(e watch.Event) error {
	node, ok := e.Object.(*corev1.Node)
	if !ok {
		return fmt.Errorf("watching nodes: %T", e.Object)
	}
	now := time.Now()
	ours, record := ourTaints(node), false
	for key := range node.Annotations {
		record = record || strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix)
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	i, known := o.index[node.Name]
	if !known {
		return nil
	}
	o.records[i] = record
	if o.taints[i] == ours {
		return nil
	}
	o.taints[i] = ours
	o.changes++
	if o.all != nil && ours == o.want && o.reached[i].IsZero() {
		o.reached[i] = now
		if o.missing--; o.missing == 0 {
			close(o.all)
		}
	}
	return nil
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
	select {
	case <-all:
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.reached, nil
	case <-ctx.Done():
		o.mu.Lock()
		defer o.mu.Unlock()
		return nil, fmt.Errorf("%d of %d nodes have not got to %d taints: %w",
			o.missing, len(o.taints), o.want, errors.Join(o.err, ctx.Err()))
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

// taintsOf returns how many of our taints a node has.
func (o *observer) taintsOf(i int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taints[i]
}

// clean returns an error if nodes have taints or records.
func (o *observer) clean() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for i := range o.taints {
		if o.taints[i] > 0 || o.records[i] {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("%d nodes have taints or records", n)
	}
	return nil
}
