// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Workers is the number of nodes that are reconciled at a time.
const Workers = 4

// Relevant passes nodes with the record of a guard when the record or their taints change, and when they are deleted.
func Relevant() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		CreateFunc:  func(e event.TypedCreateEvent[*corev1.Node]) bool { return guarded(e.Object) },
		DeleteFunc:  func(e event.TypedDeleteEvent[*corev1.Node]) bool { return guarded(e.Object) },
		GenericFunc: func(event.TypedGenericEvent[*corev1.Node]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			return (guarded(e.ObjectOld) || guarded(e.ObjectNew)) &&
				(!maps.Equal(e.ObjectOld.Annotations, e.ObjectNew.Annotations) ||
					!ruleset.SameTaints(e.ObjectOld.Spec.Taints, e.ObjectNew.Spec.Taints))
		},
	}
}

// guarded reports whether a node has the record of a guard.
func guarded(node *corev1.Node) bool {
	for key, value := range node.Annotations {
		if strings.HasPrefix(key, v1alpha1.RecordAnnotationPrefix) && strings.Contains(value, `"guardedSince"`) {
			return true
		}
	}
	return false
}
