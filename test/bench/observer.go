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
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// observer sees each version of the nodes, and when their taints change.
type observer struct {
	mu      sync.Mutex
	taints  []int       // of ours, node by node
	records []bool      // whether the node has a record of the operator
	from    []time.Time // when the evidence of the node changed, against the synthetic server
	err     error       // of the watch

	// Since expect:
	want    int // taints on each node
	changes int // of taints
	reached []reached
}

// reached says when a node got the taints that are wanted, and when its evidence had changed.
type reached struct {
	node     int
	at, from time.Time
}

func newObserver(nodes int) *observer {
	return &observer{taints: make([]int, nodes), records: make([]bool, nodes), from: make([]time.Time, nodes)}
}

// run watches the nodes of a cluster.
func (o *observer) run(ctx context.Context, c *cluster.Cluster) {
	// An API server that is busy ends the watch, and may no longer know its version: then all nodes are listed again.
	for ctx.Err() == nil {
		ended, err := c.Watch(ctx, &corev1.NodeList{}, func(e watch.Event) error {
			node, ok := e.Object.(*corev1.Node)
			if !ok {
				return fmt.Errorf("watching nodes: %T", e.Object)
			}
			o.see(node)
			return nil
		})
		if err == nil {
			err = <-ended
		}
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			o.mu.Lock()
			o.err = err
			o.mu.Unlock()
			return
		}
	}
}

// see takes a new version of a node.
func (o *observer) see(node *corev1.Node) {
	i, err := strconv.Atoi(strings.TrimPrefix(node.Name, nodePrefix+"-"))
	if err != nil || i >= len(o.taints) {
		return
	}
	now, taints, record := time.Now(), 0, false
	for t := range node.Spec.Taints {
		if strings.HasPrefix(node.Spec.Taints[t].Key, taintKeyStem) {
			taints++
		}
	}
	for key := range node.Annotations {
		record = record || strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.records[i] = record
	if o.taints[i] == taints {
		return
	}
	o.taints[i] = taints
	o.changes++
	if taints == o.want {
		o.reached = append(o.reached, reached{i, now, o.from[i]})
	}
}

// expect begins to look for the change of nodes to a number of taints.
func (o *observer) expect(taints int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.want, o.changes, o.reached = taints, 0, nil
}

// wait waits until all nodes but some have the taints that are expected, and returns when each got them.
func (o *observer) wait(ctx context.Context, but int) ([]reached, error) {
	err := cluster.Poll(ctx, runLimit, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if n := o.wrong(); n > but {
			return errors.Join(fmt.Errorf("%d nodes do not have %d taints", n, o.want), o.err)
		}
		return nil
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reached, err
}

// wrong returns how many nodes do not have the taints that are expected. The caller holds o.mu.
func (o *observer) wrong() (n int) {
	for _, taints := range o.taints {
		if taints != o.want {
			n++
		}
	}
	return n
}

// seen returns how often a node's taints have changed since expect, and on how many nodes they are not as expected.
func (o *observer) seen() (changes, wrong int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changes, o.wrong()
}

// untainted returns an error if a node has taints.
func (o *observer) untainted(i int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.taints[i] > 0 {
		return fmt.Errorf("%s has %d taints", nodeName(i), o.taints[i])
	}
	return nil
}

// clean returns an error if nodes have taints or records.
func (o *observer) clean() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.taints {
		if o.taints[i] > 0 || o.records[i] {
			return fmt.Errorf("%s has %d taints, or records", nodeName(i), o.taints[i])
		}
	}
	return nil
}
