// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
)

// Strip makes a node smaller before it is cached. It drops fields that no verdict depends on, such as the list of
// images, and stores strings that many nodes have only once, such as keys, types and messages. It keeps all labels,
// annotations and conditions, because the next rule may read any of them. A stripped node must never be written as a
// whole, only patched.
func Strip(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields = nil
	node.Status.Images = nil
	node.Status.VolumesInUse = nil
	node.Status.VolumesAttached = nil
	node.Labels, node.Annotations = shareAll(node.Labels), shareAll(node.Annotations)
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		t.Key, t.Value, t.Effect = share(t.Key), share(t.Value), share(t.Effect)
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.Type, c.Status, c.Reason, c.Message = share(c.Type), share(c.Status), share(c.Reason), share(c.Message)
	}
	return node, nil
}

// share returns the copy of a string that all nodes share.
func share[S ~string](s S) S { return unique.Make(s).Value() }

func shareAll(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[share(k)] = share(v)
	}
	return out
}
