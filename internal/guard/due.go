// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/evidence/condition"
)

// maxToleration is the largest tolerationSeconds that fits into a Duration: 292 years. A pod with more stays forever.
// The node controller decides in the same way about the largest value of all.
const maxToleration = int64(math.MaxInt64 / time.Second)

// Due returns when a pod is due for eviction by a node's NoExecute taints, or false if it may stay forever. The time
// counts as in the node controller (k8s.io/kubernetes, pkg/controller/tainteviction): from the taint, or from when the
// pod was bound to the node, whichever is later. A taint without timeAdded counts from when the pod was bound.
func Due(pod *corev1.Pod, nodeTaints []corev1.Taint) (time.Time, bool) {
	var due time.Time
	evicts := false
	bound := boundAt(pod)
	for i := range nodeTaints {
		t := &nodeTaints[i]
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		after := time.Duration(0)
		if toleration := evidence.Toleration(pod.Spec.Tolerations, t); toleration != nil {
			seconds := toleration.TolerationSeconds
			if seconds == nil || *seconds > maxToleration {
				continue
			}
			after = time.Duration(max(0, *seconds)) * time.Second
		}
		start := bound
		if t.TimeAdded != nil && t.TimeAdded.After(start) {
			start = t.TimeAdded.Time
		}
		if at := start.Add(after); !evicts || at.Before(due) {
			due = at
		}
		evicts = true
	}
	return due, evicts
}

// Tried reports whether the node controller has found a pod due, and has announced that it evicts the pod. It does not
// repeat an eviction that was denied. Both times are by its own clock, so that this tells what is due also if the API
// server's is behind. What was announced in an earlier outage is from before the pod was due.
func Tried(pod *corev1.Pod, due time.Time) bool {
	announced := Announced(pod)
	return announced != nil && !due.After(announced.LastTransitionTime.Add(time.Second)) // it has whole seconds
}

// boundAt returns when a pod was bound to its node.
func boundAt(pod *corev1.Pod) time.Time {
	if c := condition.OfPod(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}
