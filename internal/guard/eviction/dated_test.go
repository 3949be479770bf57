// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOnlyATaintWithoutTimeAddedCountsFromTheLastChange: a client that adds another taint does not delay evictions.
func TestOnlyATaintWithoutTimeAddedCountsFromTheLastChange(t *testing.T) {
	lost := metav1.NewTime(time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC))
	changed := metav1.NewTime(lost.Add(28 * time.Minute))
	node := &corev1.Node{}
	node.Spec.Taints = []corev1.Taint{
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &lost},
		{Key: "example.com/maintenance", Effect: corev1.TaintEffectNoExecute},
	}
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &changed,
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`)}}
	for i, want := range []metav1.Time{lost, changed} {
		if got := dated(node)[i]; !want.Equal(got.TimeAdded) {
			t.Errorf("taint %s counts from %s, want %s", got.Key, got.TimeAdded, want)
		}
	}
}
