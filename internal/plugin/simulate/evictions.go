// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/internal/guard"
	"github.com/nodegate/nodegate/internal/plugin/report"
)

// evictions counts the pods that taints of NoExecute would evict, at once or when a toleration ends.
func (s *simulation) evictions() error {
	var pods []*corev1.Pod
	read := false
	for _, r := range s.out {
		taint := s.set.Named(r.Rule).Taint
		if r.Totals.TaintsAdded == 0 || taint.Effect != corev1.TaintEffectNoExecute || s.Pods == nil {
			continue
		}
		if !read {
			var err error
			if pods, err = s.Pods(); err != nil {
				return err
			}
			read = true
		}
		tainted := map[string]bool{}
		for _, n := range r.Nodes {
			tainted[n.Node] = n.Taint == report.TaintAdded
		}
		evicted := 0
		for _, pod := range pods {
			if _, due := guard.Due(pod, []corev1.Taint{*taint}); due && tainted[pod.Spec.NodeName] && pod.DeletionTimestamp.IsZero() {
				evicted++
			}
		}
		r.Totals.PodsEvicted = &evicted
	}
	return nil
}
