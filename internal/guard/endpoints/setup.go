// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

const (
	// Workers is the number of nodes whose pods are marked at a time.
	Workers = 8
	// Pass is the name of the request for a pass.
	Pass = "all"
)

// Changes returns a source that enqueues a pass when a change of a node may change a state.
func Changes(c cache.Cache) source.Source {
	return source.Kind(c, &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(
		func(context.Context, *corev1.Node) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: Pass}}}
		}), Relevant())
}

// Relevant passes new and deleted nodes, and changes of a node that may change a state.
func Relevant() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		GenericFunc: func(event.TypedGenericEvent[*corev1.Node]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			before, lostBefore := lostAt(e.ObjectOld)
			after, lost := lostAt(e.ObjectNew)
			return before != after || lostBefore != lost || !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) ||
				e.ObjectOld.Annotations[v1alpha1.OverrideAnnotation] != e.ObjectNew.Annotations[v1alpha1.OverrideAnnotation]
		},
	}
}
