// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/nodegate/nodegate/internal/agent/nodewatch"
)

// writeLimit is how long a write may take.
const writeLimit = 10 * time.Second

// look makes sure that the node's conditions are known. If the agent may not read them, it sends an empty patch, whose
// answer has them.
func (p *Publisher) look(ctx context.Context, client rest.Interface) error {
	if p.Source.Known() && p.Source.Unavailable() == nil && p.Source.Object() != nil {
		return nil
	}
	return p.write(ctx, client, nil, nil)
}

// write writes conditions and remembers the answer.
func (p *Publisher) write(ctx context.Context, client rest.Interface, write []corev1.NodeCondition,
	remove []string) error {
	patch, err := encodePatch(write, remove)
	if err != nil {
		return err
	}
	err = p.patch(ctx, client, patch)
	if p.Update && apierrors.IsForbidden(err) {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error { return p.update(ctx, client, write, remove) })
	}
	return err
}

// update does the same as a patch, with the permissions to get nodes and to update nodes/status.
func (p *Publisher) update(ctx context.Context, client rest.Interface, write []corev1.NodeCondition,
	remove []string) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	node := &corev1.Node{}
	if err := client.Get().Resource("nodes").Name(p.Node).MaxRetries(0).Do(ctx).Into(node); err != nil {
		return p.answered(nil, fmt.Errorf("reading node %q: %w", p.Node, err))
	}
	if len(write) == 0 && len(remove) == 0 {
		return p.answered(node, nil)
	}
	node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return slices.Contains(remove, string(c.Type))
	})
	for _, c := range write {
		if before := find(node.Status.Conditions, string(c.Type)); before != nil {
			*before = c
		} else {
			node.Status.Conditions = append(node.Status.Conditions, c)
		}
	}
	err := client.Put().Resource("nodes").Name(p.Node).SubResource("status").Body(node).MaxRetries(0).Do(ctx).Into(node)
	if err != nil {
		err = fmt.Errorf("updating the status of node %q: %w", p.Node, err)
	}
	return p.answered(node, err)
}

func (p *Publisher) patch(ctx context.Context, client rest.Interface, patch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	node := &corev1.Node{}
	err := client.Patch(types.StrategicMergePatchType).Resource("nodes").Name(p.Node).SubResource("status").
		Body(patch).MaxRetries(0).Do(ctx).Into(node)
	if err != nil {
		err = fmt.Errorf("patching the status of node %q: %w", p.Node, err)
	}
	return p.answered(node, err)
}

// answered stores the node in the answer of the API server, or that there is none.
func (p *Publisher) answered(node *corev1.Node, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if nodewatch.Gone(err, p.Node) {
		p.seen = nil
	}
	if err != nil {
		return err
	}
	p.seen = &corev1.Node{ObjectMeta: node.ObjectMeta, Status: corev1.NodeStatus{Conditions: node.Status.Conditions}}
	p.seen.ManagedFields, p.seen.Annotations, p.seen.Labels = nil, nil, nil
	return nil
}
