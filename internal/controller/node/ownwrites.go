// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// ownWrites are the versions of nodes that this controller has written last. What they are was told to the fleet when
// the API server answered: there is no need to look at them once more when the watch brings them.
type ownWrites struct{ versions sync.Map } // name to resourceVersion

func (e *ownWrites) expect(node *corev1.Node) { e.versions.Store(node.Name, node.ResourceVersion) }

func (e *ownWrites) forget(node string) { e.versions.Delete(node) }

func (e *ownWrites) is(node *corev1.Node) bool {
	version, ok := e.versions.Load(node.Name)
	return ok && version == node.ResourceVersion
}
