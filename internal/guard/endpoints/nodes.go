// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
	"github.com/nodegate/nodegate/internal/guard"
)

// nodes returns all nodes. The cache may be behind the states in the object, as that of a new leader: a node would
// leave its state because it was ready before it was lost. So such a node is read from the API server. Unread are those
// of them that could not be read.
func (k *Keeper) nodes(ctx context.Context, stored *endpointsv1alpha1.KeptEndpoints) (out []*corev1.Node,
	unread sets.Set[string], err error) {
	list := &corev1.NodeList{}
	if err := k.Nodes.List(ctx, list); err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	out = make([]*corev1.Node, len(list.Items))
	doubtful, seen := map[string]int{}, k.lost
	k.lost = sets.New[string]()
	for i := range list.Items {
		node := &list.Items[i]
		out[i] = node
		_, lost := lostAt(node)
		switch {
		case !lost && !outsideArmed(stored, node.Name):
		case lost:
			k.lost.Insert(node.Name)
		case seen.Has(node.Name): // the cache is not behind the loss
		default:
			doubtful[node.Name] = i
		}
	}
	live, err := k.live(ctx, doubtful)
	for name, at := range doubtful {
		if node := live[name]; node != nil {
			out[at] = node
		}
	}
	if err != nil {
		return out, sets.KeySet(doubtful), fmt.Errorf("reading nodes past the cache: %w", err)
	}
	return out, nil, nil
}

// few is up to how many nodes are read one by one, and not with a list of all nodes.
const few = 50

// live reads nodes past the cache. Nodes that do not exist any more are left out.
func (k *Keeper) live(ctx context.Context, names map[string]int) (map[string]*corev1.Node, error) {
	out := map[string]*corev1.Node{}
	if len(names) <= few {
		for name := range names {
			node := &corev1.Node{}
			err := k.Live.Get(ctx, client.ObjectKey{Name: name}, node)
			if client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			if err == nil {
				out[name] = node
			}
		}
		return out, nil
	}
	for page := ""; ; {
		list := &corev1.NodeList{}
		if err := k.Live.List(ctx, list, client.Limit(pageSize), client.Continue(page)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			if _, wanted := names[list.Items[i].Name]; wanted {
				out[list.Items[i].Name] = list.Items[i].DeepCopy()
			}
		}
		if page = list.Continue; page == "" {
			return out, nil
		}
	}
}

// outsideArmed reports whether a node is not in Armed under a rule.
func outsideArmed(stored *endpointsv1alpha1.KeptEndpoints, node string) bool {
	return slices.ContainsFunc(stored.Rules, func(r endpointsv1alpha1.EndpointRule) bool {
		return r.Nodes[node] != guard.EndpointsArmed
	})
}
