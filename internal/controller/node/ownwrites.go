// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// ownWrites holds the resource version of this controller's last write of each node. The fleet has the result of the
// write since the API server answered, so the node need not be reconciled again when the watch brings it.
type ownWrites struct{ versions sync.Map } // name to resourceVersion

func (e *ownWrites) expect(node *corev1.Node) { e.versions.Store(node.Name, node.ResourceVersion) }

func (e *ownWrites) forget(node string) { e.versions.Delete(node) }

func (e *ownWrites) is(node *corev1.Node) bool {
	version, ok := e.versions.Load(node.Name)
	return ok && version == node.ResourceVersion
}
