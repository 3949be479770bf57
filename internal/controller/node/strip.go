// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import corev1 "k8s.io/api/core/v1"

// Strip drops fields of a node that no verdict depends on, such as the list of images, before the node is cached. It
// keeps all labels, annotations and conditions, because the next rule may read any of them. A stripped node must never
// be written as a whole, only patched. Usually watch.LeanNodes has not decoded these fields in the first place.
func Strip(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields = nil
	node.Status.Images = nil
	node.Status.VolumesInUse = nil
	node.Status.VolumesAttached = nil
	return node, nil
}
