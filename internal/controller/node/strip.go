// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"sync"

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
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shareAll(node.Labels)
	shareAll(node.Annotations)
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

// sharedStrings has one copy of each string that was cached lately. It keeps at least the last maxShared distinct
// strings, and at most twice as many: when young is full, it becomes old, and what is not used again goes with it.
// Package unique does not do, since it forgets a string at the next garbage collection unless its handle is kept. Long
// strings are not kept: a reporter with a new message in each heartbeat could fill the memory with them.
type sharedStrings struct {
	mu         sync.Mutex // Strip holds it for a whole node
	young, old map[string]string
}

// maxShared is a number of strings, maxSharedBytes the length of the longest one.
const maxShared, maxSharedBytes = 1 << 15, 512

func (s *sharedStrings) get(v string) string {
	if v == "" || len(v) > maxSharedBytes {
		return v
	}
	if kept, ok := s.young[v]; ok {
		return kept
	}
	kept, ok := s.old[v]
	if !ok {
		kept = strings.Clone(v)
	}
	if s.young == nil || len(s.young) >= maxShared {
		s.young, s.old = map[string]string{}, s.young
	}
	s.young[kept] = kept
	return kept
}

var shared sharedStrings

func share[S ~string](s S) S { return S(shared.get(string(s))) }

// shareAll works in place: an assignment to a map also stores its key, although an equal one is there.
func shareAll(m map[string]string) {
	for k, v := range m {
		m[share(k)] = share(v)
	}
}
