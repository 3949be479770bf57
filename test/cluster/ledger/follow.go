// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/test/cluster"
)

// Follower feeds a ledger.
type Follower struct {
	ledger      *Ledger
	cluster     *cluster.Cluster
	labels      client.MatchingLabels
	nodes, pods <-chan error
}

// Follow tells a ledger about all nodes, and about the pods with these labels, from now on and until ctx ends. No
// version of any of them is left out.
func Follow(ctx context.Context, c *cluster.Cluster, l *Ledger, labels client.MatchingLabels) (*Follower, error) {
	f := &Follower{ledger: l, cluster: c, labels: labels}
	pods := &corev1.PodList{}
	var err error
	f.nodes, err = c.Watch(ctx, &corev1.NodeList{}, func(e watch.Event) error {
		node, ok := e.Object.(*corev1.Node)
		if ok && e.Type == watch.Deleted {
			l.NodeGone(node.Name)
			return nil
		}
		return l.Node(node)
	})
	if err != nil {
		return nil, fmt.Errorf("following nodes: %w", err)
	}
	f.pods, err = c.Watch(ctx, pods, func(e watch.Event) error {
		pod, ok := e.Object.(*corev1.Pod)
		if ok && e.Type == watch.Deleted {
			l.PodGone(pod.UID)
			return nil
		}
		return l.Pod(pod)
	}, labels)
	if err != nil {
		return nil, fmt.Errorf("following pods: %w", err)
	}
	if len(pods.Items) > 0 {
		return nil, fmt.Errorf("there are pods %v already: since when they are bound is not known", labels)
	}
	return f, nil
}

// Err is the error that ended the following before its time; nil while it goes on.
func (f *Follower) Err() error {
	select {
	case err := <-f.nodes:
		return err
	case err := <-f.pods:
		return err
	default:
		return nil
	}
}

// Settle waits until the ledger has judged everything up to now.
func (f *Follower) Settle(ctx context.Context) error {
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	if err := f.cluster.Client.List(ctx, pods, f.labels); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	if err := f.cluster.Client.List(ctx, nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	bound := 0
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != "" {
			bound++
		}
	}
	return cluster.Poll(ctx, cluster.Limit, func() error {
		if err := f.Err(); err != nil {
			return err
		}
		if s := f.ledger.Snapshot(); s.Bound < bound {
			return fmt.Errorf("the watch has reported %d of %d bound pods", s.Bound, bound)
		}
		settled, err := f.ledger.Settle(nodes.ResourceVersion, nodes.Items)
		if err == nil && !settled {
			err = errors.New("the watch has not reported the newest nodes")
		}
		return err
	})
}
